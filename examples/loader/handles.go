package main

import (
	"fmt"
	"sync"

	"github.com/go-handoff/handoff/memview"
)

// loaders holds the open loaders by number: Python keeps the number.
var loaders struct {
	sync.Mutex
	last int
	open map[int]*loader
}

func loaderOf(handle int) (*loader, error) {
	loaders.Lock()
	defer loaders.Unlock()
	l := loaders.open[handle]
	if l == nil {
		return nil, fmt.Errorf("no loader %d: it is closed, or never was", handle)
	}
	return l, nil
}

// open reads a record file for decoding by workers goroutines.
func open(path string, workers int) (int, error) {
	l, err := openRecords(path, workers)
	if err != nil {
		return 0, err
	}
	loaders.Lock()
	defer loaders.Unlock()
	if loaders.open == nil {
		loaders.open = map[int]*loader{}
	}
	loaders.last++
	loaders.open[loaders.last] = l
	return loaders.last, nil
}

// nextBatch decodes up to size records: images of float32 [n 28 28] and labels
// of int32 [n]. Both are empty at the end of the file.
func nextBatch(handle, size int) (images, labels memview.StridedMemoryView, err error) {
	l, err := loaderOf(handle)
	if err != nil {
		return images, labels, err
	}
	if size < 1 {
		return images, labels, fmt.Errorf("a batch of %d: at least 1 is needed", size)
	}
	part := l.take(size)
	n := len(part)
	x, y := make([]float32, n*pixels), make([]int32, n)
	if err := l.decode(part, x, y); err != nil {
		return images, labels, err
	}
	if images, err = memview.FromSlice(x, int64(n), side, side); err != nil {
		return images, labels, err
	}
	labels, err = memview.FromSlice(y)
	return images, labels, err
}

// closeLoader forgets a loader. Batches that were handed out stay valid.
func closeLoader(handle int) error {
	loaders.Lock()
	defer loaders.Unlock()
	if loaders.open[handle] == nil {
		return fmt.Errorf("no loader %d: it is closed, or never was", handle)
	}
	delete(loaders.open, handle)
	return nil
}
