package dlpack

import (
	"strconv"
	"strings"
)

// Version is a version of the DLPack ABI. A major version fixes the layout of
// the structs, a minor version the set of values in them.
type Version struct {
	Major uint32
	Minor uint32
}

// ABIVersion is the version that this package implements and writes. Every
// tensor that it exports obeys the rules of this version.
var ABIVersion = Version{Major: abiMajor, Minor: 3}

const abiMajor = 1

// Less reports whether v comes before w, in the order of tuples.
func (v Version) Less(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// Check returns an error wrapping [ErrVersion] unless the layout of the major
// version is known (R008). Every minor version is fine (R010).
func (v Version) Check() error {
	if v.Major != ABIVersion.Major {
		return v.problem().err("dlpack: version")
	}
	return nil
}

func (v Version) problem() problem {
	return problem{kind: kindVersion, rule: 8, what: whatVersion, a: int64(v.Major), b: int64(v.Minor)}
}

// String returns a form such as "1.3".
func (v Version) String() string {
	return strconv.FormatUint(uint64(v.Major), 10) + "." + strconv.FormatUint(uint64(v.Minor), 10)
}

// Flags are the flag bits of a versioned tensor.
type Flags uint64

// Flag bits of DLPack 1.3. All others are unassigned and refused (R012).
const (
	// FlagReadOnly: the consumer must not write (R014, R015).
	FlagReadOnly Flags = 1
	// FlagIsCopied: the producer made a fresh copy, nobody else uses the
	// memory (R017, R018).
	FlagIsCopied Flags = 2
	// FlagSubbyteTypePadded: elements below 8 bits take one byte each
	// instead of being packed (R020).
	FlagSubbyteTypePadded Flags = 4

	knownFlags = FlagReadOnly | FlagIsCopied | FlagSubbyteTypePadded
)

// Has reports whether all bits of mask are set.
func (f Flags) Has(mask Flags) bool { return f&mask == mask }

// String returns names joined by "|", unknown bits in hexadecimal, and "0" for
// none.
func (f Flags) String() string {
	if f == 0 {
		return "0"
	}
	var parts []string
	for _, n := range []struct {
		bit  Flags
		name string
	}{{FlagReadOnly, "read_only"}, {FlagIsCopied, "is_copied"}, {FlagSubbyteTypePadded, "subbyte_padded"}} {
		if f&n.bit != 0 {
			parts = append(parts, n.name)
		}
	}
	if rest := f &^ knownFlags; rest != 0 {
		parts = append(parts, "0x"+strconv.FormatUint(uint64(rest), 16))
	}
	return strings.Join(parts, "|")
}
