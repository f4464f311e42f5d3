# gnuplot -e "tsv='FILE'; png='FILE'" ack-wait.gp: the picture of ack-wait.
set terminal pngcairo size 1600,1300 font "sans,9"
set output png
set datafile separator "\t"
set style data histograms
set style fill solid 0.9 border -1
set boxwidth 0.75
set xtics rotate by -50 left nomirror scale 0
set ytics nomirror
set grid ytics
set bmargin 15
set rmargin 15
set ylabel "ms a batch of 512"
set multiplot layout 2,1

# A few points are far above the others: four times the median is the top, and
# each has its number.
rows(base) = "< grep '^".base."' '".tsv."'"
number(ms) = sprintf("%.1f", ms)
name(point, from) = strlen(point) < from ? "(base)" : point[from:*]

stats rows("serial") using 3 nooutput
top = 4 * STATS_median
set yrange [0:top]
set style histogram rowstacked
set key top left
set title "the serial loop (base: the old fan-out), by what the time is for"
plot for [i=4:8] rows("serial") using i:xtic(name(strcol(1), 8)) \
	title word("read plan enqueue acks commit", i - 3), \
	rows("serial") using 0:($3 > top * .95 ? top * .95 : $3):(number($3)) \
	with labels offset 0,0.5 notitle

stats rows("chain") using 3 nooutput
top = 4 * STATS_median
set yrange [0:top]
set style histogram clustered gap 0.5
set title "the chain, what a batch adds"
plot rows("chain") using 3:xtic(name(strcol(1), 7)) notitle, \
	rows("chain") using 0:($3 > top * .95 ? top * .95 : $3):(number($3)) \
	with labels offset 0,0.5 notitle
unset multiplot
