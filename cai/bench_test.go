package cai_test

import (
	"testing"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

func BenchmarkParse(b *testing.B) {
	d := good()
	d["strides"] = t2(int64(12), int64(4))
	d["stream"] = int64(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cai.Parse(d, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDesc(b *testing.B) {
	i, err := cai.Parse(good(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Desc(dlpack.Device{Type: dlpack.DeviceCUDA}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseTypestr(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cai.ParseTypestr("<f4"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFormatDType(b *testing.B) {
	run := func(name, format string, size int64) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := cai.FormatDType(format, size); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("plain", "d", 8)
	run("order", "=d", 8)
	run("parsed", " =d", 8)
}

func BenchmarkMap(b *testing.B) {
	i, err := cai.Parse(good(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		i.Map()
	}
}
