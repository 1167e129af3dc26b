package launch

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// checkWhole refuses code that ends before it says that it does, and machine
// code without any section: a driver is given an address and no length, and
// reads on. What the bytes mean is for the driver to judge.
func checkWhole(f Format, code []byte) error {
	switch f {
	case FormatCubin:
		return checkELF(code)
	case FormatFatbin:
		const header = 16 // magic, version, bytes of the header; bytes of the rest
		if len(code) < header {
			return fmt.Errorf("a fatbin of %d bytes: %w", len(code), ErrImage)
		}
		first := uint64(binary.LittleEndian.Uint16(code[6:]))
		rest := binary.LittleEndian.Uint64(code[8:])
		if n := uint64(len(code)); first < header || first > n || rest > n-first {
			return fmt.Errorf("a fatbin that says it has %d + %d bytes has %d, it is cut off: %w", first, rest, n, ErrImage)
		}
	}
	return nil
}

// Places in a 64-bit ELF file and its tables, from the System V ABI.
const (
	elfHeaderSize  = 64
	elfProgOffset  = 32 // 64 bits each
	elfSectOffset  = 40
	elfProgEntry   = 54 // 16 bits each
	elfProgNum     = 56
	elfSectEntry   = 58
	elfSectNum     = 60
	elfProgSize    = 56 // of an entry
	elfSectSize    = 64
	progFileOffset = 8
	progFileSize   = 32
	sectType       = 4
	sectFileOffset = 24
	sectFileSize   = 32
)

func checkELF(code []byte) error {
	if len(code) < elfHeaderSize || code[elf.EI_CLASS] != byte(elf.ELFCLASS64) || code[elf.EI_DATA] != byte(elf.ELFDATA2LSB) {
		return fmt.Errorf("no 64-bit ELF file of a device: %w", ErrImage)
	}
	le := binary.LittleEndian
	lies := func(off, size uint64) bool { n := uint64(len(code)); return off <= n && size <= n-off }
	table := func(what string, off uint64, entry, num, least uint16, part func(e []byte) bool) error {
		if num == 0 {
			return nil
		}
		if entry < least || !lies(off, uint64(entry)*uint64(num)) {
			return fmt.Errorf("the table of %ss lies outside of the %d bytes, which are cut off: %w", what, len(code), ErrImage)
		}
		for i := range uint64(num) {
			if !part(code[off+i*uint64(entry):]) {
				return fmt.Errorf("%s %d lies outside of the %d bytes, which are cut off: %w", what, i, len(code), ErrImage)
			}
		}
		return nil
	}
	sections := le.Uint16(code[elfSectNum:])
	if sections == 0 {
		return fmt.Errorf("an ELF file without sections: %w", ErrImage)
	}
	err := table("section", le.Uint64(code[elfSectOffset:]), le.Uint16(code[elfSectEntry:]), sections, elfSectSize, func(e []byte) bool {
		return elf.SectionType(le.Uint32(e[sectType:])) == elf.SHT_NOBITS || elf.SectionType(le.Uint32(e[sectType:])) == elf.SHT_NULL ||
			lies(le.Uint64(e[sectFileOffset:]), le.Uint64(e[sectFileSize:]))
	})
	if err != nil {
		return err
	}
	return table("segment", le.Uint64(code[elfProgOffset:]), le.Uint16(code[elfProgEntry:]), le.Uint16(code[elfProgNum:]), elfProgSize, func(e []byte) bool {
		return lies(le.Uint64(e[progFileOffset:]), le.Uint64(e[progFileSize:]))
	})
}
