package conformance

//go:generate go run ./internal/deviations page results ../docs/deviations.md
