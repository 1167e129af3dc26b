// Package relay makes tensors that may be harmed: the fields of what package
// dlpack exports must stay as they are, because its deleter relies on them.
package relay
