# qim - fan-out of instant messages, as Unix programs.  GNU make.
#
#	make		build everything into build/bin
#	make demo	install what is missing, build, run both chains on real input
#	make check	install the test dependencies, run all tests
#	make help	the other targets

PREFIX = /usr/local
BINDIR = $(PREFIX)/bin
LIBEXECDIR = $(PREFIX)/libexec/qim
MANDIR = $(PREFIX)/share/man
# Where systemd's units go, e.g. /etc/systemd/system; empty: nowhere.
UNITDIR =
SYSUSERSDIR = $(PREFIX)/lib/sysusers.d

B = build
CC = gcc
CSTD = -std=c11 -D_GNU_SOURCE
WARN = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wno-missing-field-initializers -Werror
HARDEN = -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
OPT = -O2 -g
# What the user gives in CFLAGS and LDFLAGS comes last.
# `make B=build/fail FAILPOINTS=1`: programs that die where a test says.
FAIL = $(if $(FAILPOINTS),-DQIM_FAILPOINTS)
ALL_CFLAGS = $(CSTD) $(WARN) $(OPT) $(HARDEN) $(FAIL) -Icommon -MMD -MP $(CFLAGS)
ALL_LDFLAGS = -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)

# One line per binary: the libraries it links; log-keep links none.
LIBS_outbox-read = rdkafka msgpack libxxhash
LIBS_outbox-write = rdkafka msgpack libxxhash
LIBS_fanout-plan = msgpack libxxhash
LIBS_dispatch-produce = rdkafka msgpack libxxhash
LIBS_offset-commit = rdkafka msgpack libxxhash
LIBS_mailbox-apply = hiredis msgpack libxxhash
LIBS_mailbox-read = hiredis msgpack libxxhash jansson
LIBS_stream-dump = msgpack libxxhash jansson
LIBS_stream-tap = msgpack libxxhash
LIBS_stream-make = msgpack libxxhash jansson
LIBS_broker-mock = rdkafka
LIBS_log-audit = rdkafka msgpack libxxhash jansson
LIBS_mailbox-ack = hiredis msgpack libxxhash
LIBS_mailbox-trim = hiredis msgpack libxxhash
LIBS_mailbox-audit = rdkafka hiredis msgpack libxxhash jansson
# Scripts of Redis run in the test's own Lua, which is of the same version.
LIBS_test-converge = lua5.1

PROGRAMS = $(patsubst cmd/%.c,%,$(wildcard cmd/*.c))
BINARIES = $(PROGRAMS:%=$(B)/bin/%)
PIPELINES = pipelines/fanout pipelines/mailbox
COMMON = $(patsubst %.c,$(B)/%.o,$(wildcard common/*/*.c))
UNIT = $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*.c))
# What tests and benchmarks run that isn't part of qim, into build/tools.
TOOL_SOURCES = tests/proxy/proxy.c $(wildcard tests/lib/*.c tests/bench/*.c)
TOOLS = $(patsubst %.c,$(B)/tools/%,$(notdir $(TOOL_SOURCES)))
vpath %.c $(sort $(dir $(TOOL_SOURCES)))
# Libraries for LD_PRELOAD.
PRELOAD_SOURCES = tests/faults/faulty.c
PRELOADS = $(patsubst tests/faults/%.c,$(B)/tools/%.so,$(PRELOAD_SOURCES))
MANUALS = $(wildcard man/*.[1-8])

# `make V=1` shows the commands.
say = $(if $(V),,@printf '  %s %s\n' '$(1)' '$@';)

all: $(BINARIES)

# The archive lets each binary take only the objects it uses.
$(B)/libqim.a: $(COMMON)
	@rm -f $@
	$(call say,AR) ar rcs $@ $^

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/bin/%: $(B)/cmd/%.o $(B)/libqim.a
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ \
		$(if $(LIBS_$*),$(shell pkg-config --libs $(LIBS_$*)))

# Unit tests may use all of it; the archive comes last, as its objects are only
# taken for what is still missing then.
$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libqim.a
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) \
		$(filter %.a,$^) $(shell pkg-config --libs cmocka rdkafka \
		hiredis msgpack libxxhash jansson $(LIBS_$*))

CONVERGE_PARTS = $(patsubst %.c,$(B)/%.o,$(wildcard tests/unit/converge/*.c))
$(B)/unit/test-converge: $(CONVERGE_PARTS)
SIMULATE_PARTS = $(patsubst %.c,$(B)/%.o,$(wildcard tests/unit/simulate/*.c))
$(B)/unit/test-simulate: $(SIMULATE_PARTS)
LEDGER_PARTS = $(patsubst %.c,$(B)/%.o,$(wildcard tests/unit/ledger/*.c))
$(B)/unit/test-ledger: $(LEDGER_PARTS)

$(B)/tools/%: %.c $(B)/libqim.a
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $(filter %.c %.o,$^) \
		$(filter %.a,$^) $(shell pkg-config --libs rdkafka hiredis \
		msgpack libxxhash jansson)

PROXY_PARTS = $(patsubst %.c,$(B)/%.o,$(filter-out %/proxy.c, \
	$(wildcard tests/proxy/*.c)))
$(B)/tools/proxy: $(PROXY_PARTS)

$(B)/tools/%.so: tests/faults/%.c
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(CSTD) $(WARN) $(OPT) -fPIC -shared -o $@ $<

units: $(UNIT) $(TOOLS) $(PRELOADS)

# --- running -----------------------------------------------------------------

# INPUT: a file of JSON lines of one's own instead of the sample.
demo:
	tests/setup demo
	$(MAKE) all
	tests/demo/run $(INPUT)

# What tests/faults kills at named points.
fail:
	$(MAKE) B=$(B)/fail FAILPOINTS=1 all

check:
	tests/setup kafka
	$(MAKE) all units fail
	tests/run check

check-quick: all units
	tests/run quick

check-long:
	tests/setup kafka
	$(MAKE) all units fail
	tests/run long

ASAN = -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer
check-asan:
	$(MAKE) B=$(B)/asan OPT='-O1 -g' HARDEN=-fPIE CFLAGS='$(ASAN)' all units
	QIM_BIN=$(abspath $(B))/asan/bin tests/run programs

check-valgrind: all units
	tests/run valgrind

bench:
	tests/setup bench
	$(MAKE) all $(TOOLS)
	@for bench in tests/bench/*; do [ ! -x "$$bench" ] || "$$bench"; done

SCRIPTS = $(shell grep -lE '^\#!.*bash' -r pipelines tests .ci --include='*') \
	$(wildcard tests/lib/*.bash pipelines/*.bash)
C_FILES = $(wildcard cmd/*.c common/*/*.[ch] tests/unit/*.[ch] \
	tests/unit/*/*.[ch] tests/proxy/*.[ch] tests/lib/*.c tests/bench/*.c) \
	$(PRELOAD_SOURCES)

lint:
	clang-format --dry-run -Werror $(C_FILES)
	cppcheck -q --std=c11 --error-exitcode=1 -Icommon \
		--enable=warning,performance,portability --inline-suppr \
		--suppress=missingIncludeSystem cmd common
	shellcheck -x $(sort $(SCRIPTS))
	mandoc -T lint -W warning $(MANUALS)

# --- installing --------------------------------------------------------------

install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR)
	install $(BINARIES) $(DESTDIR)$(BINDIR)
	for name in fanout mailbox; do \
		install pipelines/$$name $(DESTDIR)$(BINDIR)/qim-$$name; \
	done
	install -m 644 pipelines/*.bash pipelines/qim.conf.example \
		$(DESTDIR)$(LIBEXECDIR)
	for page in $(MANUALS); do \
		install -D -m 644 $$page \
		    $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; \
	done
	$(if $(UNITDIR),$(MAKE) install-units)

# From each template also the unit of all partitions.
install-units:
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSUSERSDIR)
	for name in fanout mailbox; do \
		unit=$(DESTDIR)$(UNITDIR)/qim-$$name; \
		sed 's|/usr/local/bin/|$(BINDIR)/|' \
		    pipelines/systemd/qim-$$name@.service | \
		    install -m 644 /dev/stdin $$unit@.service; \
		sed 's/ -p %i//; s/ of partitions %i//' $$unit@.service | \
		    install -m 644 /dev/stdin $$unit.service; \
	done
	install -m 644 pipelines/systemd/qim.sysusers.conf \
	    $(DESTDIR)$(SYSUSERSDIR)/qim.conf

uninstall:
	rm -f $(PROGRAMS:%=$(DESTDIR)$(BINDIR)/%)
	rm -f $(PIPELINES:pipelines/%=$(DESTDIR)$(BINDIR)/qim-%)
	rm -rf $(DESTDIR)$(LIBEXECDIR)
	$(if $(UNITDIR),rm -f $(DESTDIR)$(SYSUSERSDIR)/qim.conf \
	    $(foreach n,fanout mailbox,$(DESTDIR)$(UNITDIR)/qim-$n.service \
	    $(DESTDIR)$(UNITDIR)/qim-$n@.service))
	for page in $(MANUALS); do \
		rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; \
	done

clean:
	rm -rf $(B)

help:
	@echo 'make [all]         build into $(B)/bin'
	@echo 'make demo          set up, build, run both chains [INPUT=file]'
	@echo 'make check         set up, build, run all tests'
	@echo 'make check-quick   the fast ones without real Kafka, a minute'
	@echo 'make check-long    soak and many kills too'
	@echo 'make check-asan    what needs no real Kafka, with ASan and UBSan'
	@echo 'make check-valgrind  the unit tests under valgrind'
	@echo 'make bench         benchmarks: ratios to a peer in the same run'
	@echo 'make lint          format, static checks, manuals'
	@echo 'make install       PREFIX=$(PREFIX) DESTDIR= UNITDIR='
	@echo 'make uninstall     what install has put there'
	@echo 'make clean         remove $(B)'

.PHONY: all units fail demo check check-quick check-long check-asan \
	check-valgrind bench lint install install-units uninstall \
	clean help
.SECONDARY:
-include $(COMMON:.o=.d) $(PROGRAMS:%=$(B)/cmd/%.d)
-include $(patsubst $(B)/unit/%,$(B)/tests/unit/%.d,$(UNIT)) $(TOOLS:=.d) \
	$(CONVERGE_PARTS:.o=.d) $(SIMULATE_PARTS:.o=.d) $(LEDGER_PARTS:.o=.d) \
	$(PROXY_PARTS:.o=.d)
