package main

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/go-handoff/handoff/memview"
)

// TestColumnIsArrowsMemory compares addresses and values, and what is refused.
func TestColumnIsArrowsMemory(t *testing.T) {
	if err := module.Check(); err != nil {
		t.Fatal(err)
	}
	h, err := newPrices(4)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := batchOf(h)
	if err != nil {
		t.Fatal(err)
	}
	v, err := columnArray(h, "price")
	if err != nil {
		t.Fatal(err)
	}
	got, err := memview.ReadSlice[float64](v)
	if err != nil {
		t.Fatal(err)
	}
	if want := rec.Column(1).(*array.Float64).Float64Values(); &got[0] != &want[0] || len(got) != len(want) {
		t.Errorf("the view is not the column's memory")
	}
	if !v.ReadOnly() {
		t.Error("the view can be written")
	}
	if _, err := columnArray(h, "name"); err == nil {
		t.Error("a column that is not there was found")
	}
	if err := release(h); err != nil {
		t.Fatal(err)
	}
	if err := release(h); err == nil {
		t.Error("a batch was released twice")
	}
}
