// Command export writes the rules as JSON, for the Python half of the suite.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/go-handoff/handoff/conformance/rules"
)

func main() {
	type row struct {
		*rules.Rule
		Untestable string `json:"untestable,omitempty"`
	}
	var rows []row
	all := rules.All()
	for i := range all {
		rows = append(rows, row{&all[i], rules.Untestable(all[i].ID)})
	}
	out, err := json.MarshalIndent(rows, "", " ")
	if err == nil {
		err = os.WriteFile(os.Args[1], append(out, '\n'), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
