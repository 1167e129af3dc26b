package cai

import (
	"fmt"
	"math"
	"math/big"
)

// List is a Python list in the neutral form of a dictionary; a []any is a tuple.
type List []any

// intKind is how an integer was read.
type intKind uint8

const (
	notInteger intKind = iota
	inRange            // an int64 or a uint64
	outOfRange         // an integer beyond both
)

// toUint reads any integer. A negative one comes as two's complement with neg.
// A bool is no integer.
func toUint(v any) (n uint64, neg bool, kind intKind) {
	signed := func(i int64) (uint64, bool, intKind) { return uint64(i), i < 0, inRange }
	switch i := v.(type) {
	case int64:
		return signed(i)
	case int:
		return signed(int64(i))
	case int32:
		return signed(int64(i))
	case int16:
		return signed(int64(i))
	case int8:
		return signed(int64(i))
	case uint64:
		return i, false, inRange
	case uint:
		return uint64(i), false, inRange
	case uintptr:
		return uint64(i), false, inRange
	case uint32:
		return uint64(i), false, inRange
	case uint16:
		return uint64(i), false, inRange
	case uint8:
		return uint64(i), false, inRange
	case *big.Int:
		switch {
		case i == nil:
			return 0, false, notInteger
		case i.IsInt64():
			return signed(i.Int64())
		case i.IsUint64():
			return i.Uint64(), false, inRange
		}
		return 0, i.Sign() < 0, outOfRange
	}
	return 0, false, notInteger
}

// toInt reads an integer that must fit an int64.
func toInt(v any) (int64, intKind) {
	n, neg, kind := toUint(v)
	if kind == inRange && !neg && n > math.MaxInt64 {
		kind = outOfRange
	}
	return int64(n), kind
}

// integer is the neutral form of an unsigned number.
func integer(n uintptr) any {
	if uint64(n) > math.MaxInt64 {
		return uint64(n)
	}
	return int64(n)
}

// typeName names the Python type behind a neutral value.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case string:
		return "a str"
	case []byte:
		return "bytes"
	case float32, float64:
		return "a float"
	case []any:
		return "a tuple"
	case List:
		return "a list"
	case map[string]any:
		return "a dict"
	}
	if _, _, kind := toUint(v); kind != notInteger {
		return "an int"
	}
	return fmt.Sprintf("an object (%T)", v)
}

// tuple makes the neutral form of a shape or of strides (B260).
func tuple(v []int64) []any {
	t := make([]any, len(v))
	for i, n := range v {
		t[i] = n
	}
	return t
}
