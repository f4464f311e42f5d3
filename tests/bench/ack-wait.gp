# gnuplot -e "tsv='FILE'; png='FILE'" ack-wait.gp: the picture of ack-wait.
set terminal pngcairo size 1500,1300 font "sans,9"
set output png
set datafile separator "\t"
set style data histograms
set style fill solid 0.9 border -1
set boxwidth 0.75
set xtics rotate by -40 left nomirror scale 0
set ytics nomirror
set grid ytics
set ylabel "ms a batch of 512"
set yrange [0:*]
set key top left
set multiplot layout 2,1

set style histogram rowstacked
set title "the serial loop (first: as the ADR's), by what the time is for"
plot for [i=4:8] "< grep ^serial '".tsv."'" using i:xtic(strcol(1)[8:*]) \
	title word("read plan enqueue acks commit", i - 3)

set style histogram clustered gap 0.5
set title "the chain (first: with its defaults), what a batch adds"
plot "< grep ^chain '".tsv."'" using 3:xtic(strcol(1)[7:*]) notitle
unset multiplot
