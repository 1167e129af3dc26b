package main

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
)

// A record file is a sequence of records: a label, the length of the packed
// pixels, and the pixels, deflated. All numbers are little-endian uint32.
const (
	side   = 28          // pixels on each edge of a picture
	pixels = side * side // bytes of a picture, unpacked
)

// loader hands out batches of one record file in order.
type loader struct {
	mu      sync.Mutex
	records []record
	next    int
	workers int
}

// record is one record, still packed; packed points into the file's contents.
type record struct {
	label  uint32
	packed []byte
}

// openRecords reads a record file and finds its records. The pixels stay packed.
func openRecords(path string, workers int) (*loader, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if workers < 1 {
		return nil, fmt.Errorf("workers %d: at least 1 is needed", workers)
	}
	l := &loader{workers: workers}
	for off := 0; off < len(data); {
		if len(data)-off < 8 {
			return nil, fmt.Errorf("%s: record %d is cut short", path, len(l.records))
		}
		label := binary.LittleEndian.Uint32(data[off:])
		size := int(binary.LittleEndian.Uint32(data[off+4:]))
		off += 8
		if size > len(data)-off {
			return nil, fmt.Errorf("%s: record %d is cut short", path, len(l.records))
		}
		l.records = append(l.records, record{label, data[off : off+size : off+size]})
		off += size
	}
	return l, nil
}

// writeRecords makes a record file of n pictures for the example: picture i is
// a gradient that starts at i, and its label is i modulo 10.
func writeRecords(path string, n int) error {
	var out bytes.Buffer
	picture := make([]byte, pixels)
	for i := range n {
		for p := range picture {
			picture[p] = byte(i + p)
		}
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			return err
		}
		if _, err := w.Write(picture); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		if packed.Len() > math.MaxUint32 {
			return fmt.Errorf("record %d is too large", i)
		}
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(i%10)))
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(packed.Len())))
		out.Write(packed.Bytes())
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// take returns the next records, at most n of them, none at the end.
func (l *loader) take(n int) []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	part := l.records[l.next:min(l.next+n, len(l.records))]
	l.next += len(part)
	return part
}

// decode unpacks each record into its own slots of images and labels, on
// l.workers goroutines. Every goroutine writes to places that no other one does.
func (l *loader) decode(part []record, images []float32, labels []int32) error {
	errs := make([]error, l.workers)
	var wg sync.WaitGroup
	for w := range l.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			buf := make([]byte, pixels)
			for i := w; i < len(part); i += l.workers {
				r := flate.NewReader(bytes.NewReader(part[i].packed))
				if _, err := io.ReadFull(r, buf); err != nil {
					errs[w] = fmt.Errorf("record %d of the batch: %w", i, err)
					return
				}
				dst := images[i*pixels : (i+1)*pixels]
				for p, b := range buf {
					dst[p] = float32(b) / 255
				}
				labels[i] = int32(part[i].label)
			}
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
