// Package layers holds the order of the packages of this module, from the
// bottom up, and a test that fails when an import points upward.
package layers

// order lists the layers, lowest first. Packages of one layer do not import
// each other, except where a line in together allows it. A package belongs to
// the longest prefix that matches its path inside the module.
var order = [][]string{
	{"internal/leak", "internal/gate", "internal/cptr", "internal/hunt", "internal/testenv", "internal/layers", "dlpack/minifloat"},
	{"dlpack", "pathfinder"},
	{"cai"},
	{"device/driver"},
	{"device/soft"},
	{"internal/testdriver", "internal/testlib", "internal/cloop"},
	{"stream"},
	{"device"},
	{"memview"},
	{"launch"},
	{"internal/edges"},
	{"python"},
	{"conformance"},
	{"cmd", "examples", "bench"},
}
