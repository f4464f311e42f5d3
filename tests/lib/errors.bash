# shellcheck shell=bash disable=SC2154
# errors.bash: points of tests/lib/error-points, made and compared.

# expect_points: makes those on stdin, several at a time, and fails where any
# of them isn't what is expected.
expect_points() {
	local points=$BATS_TEST_TMPDIR/points results=$BATS_TEST_TMPDIR/results
	sort >"$points"
	[[ -s $points ]] || fail 'no points' || return
	TMPDIR=$BATS_TEST_TMPDIR xargs -P 8 -L 1 \
		"$qim_root/tests/lib/error-point" <"$points" 3>&- |
		sort >"$results"
	diff "$points" "$results"
}

error_points() {
	"$qim_root/tests/lib/error-points" "$@"
}
