# shellcheck shell=bash
# setup_suite.bash: bats' hooks around all test files of this directory. The
# need_ functions of lib/ start servers when a test first asks for them; here
# they are ended.

setup_suite() {
	# shellcheck source=tests/lib/common.bash
	source "${BATS_TEST_FILENAME%/*}/lib/common.bash"
}

teardown_suite() {
	stop_everything
}
