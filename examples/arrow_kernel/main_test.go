package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-handoff/handoff/device/soft"
)

func TestRun(t *testing.T) {
	if os.Getenv("HANDOFF_DRIVER") != "cuda" {
		if err := soft.Enable(nil); errors.Is(err, soft.ErrNotSupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if want := "item 4 costs 5.00, item 999 costs 1248.75\n"; out.String() != want {
		t.Fatalf("%q, want %q", out.String(), want)
	}
}
