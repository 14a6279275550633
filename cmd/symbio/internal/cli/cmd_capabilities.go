package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// capabilityJSON is one capability. The JSON names are a contract. A schema that is null accepts
// anything.
type capabilityJSON struct {
	// Name is what `symbio invoke` takes.
	Name string `json:"name"`
	// Description comes from the node that offers it.
	Description string `json:"description"`
	// Node is the id of that node, NodeName its name.
	Node     string `json:"node"`
	NodeName string `json:"node_name"`
	// Local is true on the node that was asked.
	Local bool `json:"local"`
	// Available is false while the node cannot be reached.
	Available bool `json:"available"`
	// Idempotent means that a lost call may be repeated, possibly on another node.
	Idempotent bool `json:"idempotent"`
	// Input and Output are JSON schemas.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
}

// cmdCapabilities returns the command capabilities. Its exit status is 4 if no node offers NAME. It
// lists the capabilities of this node and of the nodes that it knows, also while they cannot be reached.
func cmdCapabilities(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "capabilities [NAME]",
		Args: command.RangeArgs(0, 1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			// NAME has at most one argument, so joining is taking it, or "" for all.
			reply, err := client.Capabilities(ctx, &symbiov1.CapabilitiesRequest{Name: strings.Join(args, "")})
			if err != nil {
				return err
			}
			all := reply.GetCapabilities()
			if env.JSON {
				return env.PrintJSON(command.Map(all, toCapability))
			}
			if len(all) == 0 {
				env.Notef("no node offers a capability")
			}
			return printCapabilities(env, all)
		}),
	}
}

// printCapabilities prints capabilities, those that every node has last. On a terminal each takes one line.
func printCapabilities(env *command.Env, all []*symbiov1.OfferedCapability) error {
	slices.SortStableFunc(all, func(a, b *symbiov1.OfferedCapability) int {
		if x, y := command.IsCommon(a.GetCapability().GetName()), command.IsCommon(b.GetCapability().GetName()); x != y {
			return map[bool]int{true: 1, false: -1}[x]
		}
		return 0
	})
	if !env.OutIsTerminal {
		return command.PrintList(env, all, []string{"NAME", "NODE", "STATE", "IDEMPOTENT", "DESCRIPTION"}, capabilityRow)
	}
	const gaps = 6
	room := terminal.Columns(env.Out) - gaps - 1
	for col := range 3 {
		widest := 0
		for _, c := range all {
			widest = max(widest, terminal.Width(capabilityRow(c)[col]))
		}
		room -= widest
	}
	return command.PrintList(env, all, []string{"NAME", "NODE", "STATE", "DESCRIPTION"}, func(c *symbiov1.OfferedCapability) []string {
		row := slices.Delete(capabilityRow(c), 3, 4)
		row[3] = terminal.Clip(row[3], max(12, room))
		return row
	})
}

// capabilityRow returns the columns of one capability, with the first line of its description.
func capabilityRow(c *symbiov1.OfferedCapability) []string {
	idempotent := "no"
	if c.GetCapability().GetIdempotent() {
		idempotent = "yes"
	}
	description, _, _ := strings.Cut(c.GetCapability().GetDescription(), "\n")
	return []string{c.GetCapability().GetName(), nodeText(c), availabilityText(c), idempotent, visible.TruncateRunes(description, 80)}
}

// toCapability returns a capability as it stands in the output. The schemas are passed on as the
// other node sent them.
func toCapability(c *symbiov1.OfferedCapability) capabilityJSON {
	p := c.GetCapability()
	return capabilityJSON{
		Name: p.GetName(), Description: p.GetDescription(), Node: c.GetNode(), NodeName: c.GetNodeName(), Local: c.GetLocal(),
		Available: c.GetAvailable(), Idempotent: p.GetIdempotent(), Input: orNull(p.GetInputSchema()), Output: orNull(p.GetOutputSchema()),
	}
}

// orNull returns a schema, or null if there is none.
func orNull(schema []byte) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage("null")
	}
	return schema
}
