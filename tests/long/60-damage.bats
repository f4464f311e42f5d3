#!/usr/bin/env bats
# tests/unit/test-damage.c and test-stream.c under the address sanitizer, with
# many seeds.

bats_require_minimum_version 1.5.0
load ../lib/common

@test "random damage, under ASan and UBSan" {
	local unit
	cd "$BATS_TEST_DIRNAME/../.." || return
	# shellcheck disable=SC2016  # for make
	make -s B=build/asan OPT='-O1 -g' HARDEN=-fPIE CFLAGS="$(
		make -s --eval 'asan: ; @echo $(ASAN)' asan)" \
		build/asan/unit/test-damage build/asan/unit/test-stream 3>&-
	for unit in test-damage test-stream; do
		QIM_SEEDS=${QIM_DAMAGE_SEEDS:-100000} \
			run -0 "build/asan/unit/$unit"
		echo "$output" | grep '^# [0-9]' >&3 || true
	done
}
