# A front door only: everything is built by Meson. `make demo` and `make test` are all the set-up.
MESON_ARGS ?=
MODEL ?= smollm2
PROMPT ?= Name the three primary colours.

.PHONY: build demo test test-full bench clean

build:
	@tools/install-packages build
	@test -f build/build.ninja || meson setup build $(MESON_ARGS)
	@ninja -C build

demo: build
	@tools/fetch-model $(MODEL) >/dev/null
	build/mica generate $(MODEL) -p "$(PROMPT)" --max-tokens 64 --verbose

test:
	@tools/install-packages build test
	@test -f build/build.ninja || meson setup build $(MESON_ARGS)
	@ninja -C build
	@tools/fetch-model smollm2 >/dev/null
	@tools/fetch-model gemma3-270m >/dev/null
	@tools/run-tests build --no-suite long

# Long fuzzing, long differential runs, oracles made anew.
test-full: test
	@tools/install-packages ci
	tools/test-full

bench: build
	@tools/fetch-model $(MODEL) >/dev/null
	build/mica bench $(MODEL)

clean:
	rm -rf build build-*
