package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed stubs.py
var stubsCode string

func newStubs() *cobra.Command {
	var python, name, out string
	var check bool
	cmd := &cobra.Command{
		Use:   "stubs FILE",
		Short: "Write the type stub (.pyi) of a built extension",
		Long: `Write the type stub of a shared object that was built with python/ext.

FILE is imported by Python; its stub goes beside it, as NAME.pyi. With several
modules in one file, name each by --name.`,
		Example: "  handoff stubs fastmath.abi3.so",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" {
				name, _, _ = strings.Cut(filepath.Base(args[0]), ".")
			}
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if _, err := os.Stat(file); err != nil {
				return err
			}
			interpreter, err := findPython(python)
			if err != nil {
				return err
			}
			text, err := runPython(cmd.Context(), interpreter, stubsCode, name, file)
			if err != nil {
				return fmt.Errorf("import of %s: %w", args[0], err)
			}
			if out == "" {
				out = filepath.Join(filepath.Dir(file), name+".pyi")
			}
			switch {
			case out == "-":
				_, err = cmd.OutOrStdout().Write(text)
				return err
			case check:
				have, err := os.ReadFile(out)
				if err == nil && !bytes.Equal(have, text) {
					err = errors.New(out + " is not up to date: run handoff stubs " + args[0])
				}
				return err
			}
			return os.WriteFile(out, text, 0o644)
		},
	}
	cmd.Flags().StringVar(&python, "python", "", "interpreter (default python3)")
	cmd.Flags().StringVar(&name, "name", "", "name of the module (default: from the file's name)")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, - for standard output (default NAME.pyi beside FILE)")
	cmd.Flags().BoolVar(&check, "check", false, "write nothing, fail if the stub differs")
	return cmd
}
