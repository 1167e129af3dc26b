// Package dlpack implements the C ABI of DLPack 1.3, by which array libraries
// lend memory to one another without a copy.
package dlpack
