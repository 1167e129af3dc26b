// Command loader is the Python module goloader: a data loader that decodes
// records on several goroutines. loader.py beside this file uses it.
//
// It shows arrays made by Go, work that runs while Python does something else
// (the GIL is free in a Go function), and state that Go keeps between calls.
//
// It needs a C compiler; `make` builds it as a shared object.
package main

import "github.com/go-handoff/handoff/python/ext"

var module = ext.New("goloader", "A parallel loader of packed pictures, in Go.").
	Func("write(path, n)", writeRecords, "Writes a record file of n pictures.").
	Func("open(path, workers=4)", open, "Opens a record file and returns a handle.").
	Func("next_batch(handle, size)", nextBatch, "Decodes up to size records; returns (images, labels), empty at the end.").
	Func("close(handle)", closeLoader, "Forgets the file. Batches stay valid.")

func main() {}
