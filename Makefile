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

B = build
CC = gcc
CSTD = -std=c11 -D_GNU_SOURCE
WARN = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wno-missing-field-initializers -Werror
HARDEN = -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
OPT = -O2 -g
# What the user gives in CFLAGS and LDFLAGS comes last.
ALL_CFLAGS = $(CSTD) $(WARN) $(OPT) $(HARDEN) -Icommon -MMD -MP $(CFLAGS)
ALL_LDFLAGS = -pie -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)

# One line per binary: the libraries it links.
LIBS_outbox-read = rdkafka msgpack libxxhash
LIBS_outbox-write = rdkafka msgpack libxxhash
LIBS_fanout-plan = msgpack libxxhash
LIBS_dispatch-produce = rdkafka msgpack libxxhash
LIBS_offset-commit = rdkafka msgpack libxxhash
LIBS_mailbox-apply = hiredis msgpack libxxhash
LIBS_mailbox-read = hiredis msgpack libxxhash jansson
LIBS_stream-dump = msgpack libxxhash jansson
LIBS_stream-make = msgpack libxxhash jansson
LIBS_broker-mock = rdkafka

PROGRAMS = $(patsubst cmd/%.c,%,$(wildcard cmd/*.c))
BINARIES = $(PROGRAMS:%=$(B)/bin/%)
PIPELINES = pipelines/fanout pipelines/mailbox
COMMON = $(patsubst %.c,$(B)/%.o,$(wildcard common/*/*.c))
UNIT = $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*.c))
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
		$(shell pkg-config --libs $(LIBS_$*))

# Unit tests may use all of it.
$(B)/unit/%: $(B)/tests/unit/%.o $(B)/libqim.a
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) -o $@ $^ $(shell pkg-config \
		--libs cmocka rdkafka hiredis msgpack libxxhash jansson)

units: $(UNIT)

clean:
	rm -rf $(B)

.PHONY: all units clean
.SECONDARY:
-include $(COMMON:.o=.d) $(PROGRAMS:%=$(B)/cmd/%.d)
-include $(patsubst $(B)/unit/%,$(B)/tests/unit/%.d,$(UNIT))
