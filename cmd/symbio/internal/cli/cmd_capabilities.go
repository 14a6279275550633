package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

// capabilityJSON is a capability in the output; the names are a contract. A schema that is null takes
// anything.
type capabilityJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Node        string          `json:"node"`
	NodeName    string          `json:"node_name"`
	Local       bool            `json:"local"`
	Available   bool            `json:"available"`
	Idempotent  bool            `json:"idempotent"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output"`
}

func (a *App) cmdCapabilities() *cobra.Command {
	return &cobra.Command{
		Use:   "capabilities [NAME]",
		Short: "What the nodes offer to each other",
		Long: `List what every node offers to the others, or with NAME who offers that. --json adds the JSON schemas of
input and output. What another node says of its capabilities is its own word.`,
		Example: `  symbio capabilities
  symbio capabilities text.wordcount --json     # with the schemas of what it takes and gives`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Capabilities(cmd.Context(), &symbiov1.CapabilitiesRequest{Name: strings.Join(args, "")})
			if err != nil {
				return err
			}
			all := make([]capabilityJSON, len(reply.GetCapabilities()))
			for i, c := range reply.GetCapabilities() {
				all[i] = toCapability(c)
			}
			if a.json {
				return a.printJSON(all)
			}
			if len(all) == 0 {
				fmt.Fprintln(a.Err, "no node offers anything")
			}
			rows := make([][]string, len(all))
			for i, c := range all {
				rows[i] = capabilityRow(c)
			}
			return a.table([]string{"NAME", "NODE", "STATE", "IDEMPOTENT", "DESCRIPTION"}, rows)
		},
	}
}

func capabilityRow(c capabilityJSON) []string {
	where, state, idempotent := c.NodeName, "available", "no"
	if c.Local {
		where += " (here)"
	}
	if !c.Available {
		state = "unavailable"
	}
	if c.Idempotent {
		idempotent = "yes"
	}
	description, _, _ := strings.Cut(c.Description, "\n")
	return []string{c.Name, where, state, idempotent, clip(description, 80)}
}

func toCapability(c *symbiov1.OfferedCapability) capabilityJSON {
	p := c.GetCapability()
	return capabilityJSON{
		Name: p.GetName(), Description: p.GetDescription(), Node: c.GetNode(), NodeName: c.GetNodeName(), Local: c.GetLocal(),
		Available: c.GetAvailable(), Idempotent: p.GetIdempotent(), Input: orNull(p.GetInputSchema()), Output: orNull(p.GetOutputSchema()),
	}
}

// orNull is a schema as it may stand in the output.
func orNull(schema []byte) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage("null")
	}
	return schema
}
