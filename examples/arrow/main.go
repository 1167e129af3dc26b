// Command arrow is the Python module goarrow: columns of Arrow record batches
// as arrays. columns.py beside this file uses it.
//
// It shows memory of another Go library handed out read-only. The batch is made
// with Arrow's Go allocator, so that the collector keeps a column for as long as
// somebody has an array of it, also after the batch was released.
//
// It needs a C compiler, and is a Go module of its own because Arrow is heavy;
// `make` builds it as a shared object.
package main

import (
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/python/ext"
)

var module = ext.New("goarrow", "Columns of Arrow record batches as arrays, from Go.").
	Func("prices(n)", newPrices, "Makes a record batch of n rows and returns its handle.").
	Func("column(batch, name)", columnArray, "Returns a column as an array, read-only.").
	Func("address(batch, name)", columnAddress, "Returns where a column begins.").
	Func("release(batch)", release, "Gives a record batch back. Its columns stay valid for those who have them.")

func main() {}

// batches holds the record batches that Python knows by number.
var batches struct {
	sync.Mutex
	last int
	open map[int]arrow.RecordBatch
}

func newPrices(n int) (int, error) {
	if n < 0 || n > 1<<24 {
		return 0, fmt.Errorf("%d rows", n)
	}
	rec := prices(n)
	batches.Lock()
	defer batches.Unlock()
	if batches.open == nil {
		batches.open = map[int]arrow.RecordBatch{}
	}
	batches.last++
	batches.open[batches.last] = rec
	return batches.last, nil
}

func batchOf(handle int) (arrow.RecordBatch, error) {
	batches.Lock()
	defer batches.Unlock()
	rec := batches.open[handle]
	if rec == nil {
		return nil, fmt.Errorf("no batch %d: it is released, or never was", handle)
	}
	return rec, nil
}

func release(handle int) error {
	batches.Lock()
	defer batches.Unlock()
	rec := batches.open[handle]
	if rec == nil {
		return fmt.Errorf("no batch %d: it is released, or never was", handle)
	}
	delete(batches.open, handle)
	rec.Release()
	return nil
}

// columnArray shows a column of numbers as a view over Arrow's memory.
func columnArray(handle int, name string) (memview.StridedMemoryView, error) {
	rec, err := batchOf(handle)
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	col, err := column(rec, name)
	if err != nil {
		return memview.StridedMemoryView{}, err
	}
	switch c := col.(type) {
	case *array.Int32:
		return readOnly(c.Int32Values())
	case *array.Int64:
		return readOnly(c.Int64Values())
	case *array.Float64:
		return readOnly(c.Float64Values())
	}
	return memview.StridedMemoryView{}, fmt.Errorf("column %q is of type %s", name, col.DataType())
}

// readOnly shows a slice as an array that nobody may write. The slice is in Go
// memory, which stays as long as the view or an array made from it does.
func readOnly[T memview.Element](s []T) (memview.StridedMemoryView, error) {
	v, err := memview.FromSlice(s)
	return v.AsReadOnly(), err
}

func columnAddress(handle int, name string) (int, error) {
	v, err := columnArray(handle, name)
	return int(v.Addr()), err
}
