package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	"symbio/skills/format"
)

// schemaSource is a format with a JSON schema.
type schemaSource struct {
	Name  string `json:"name"`
	About string `json:"about"`
	make  func() (*jsonschema.Schema, error)
}

// schemaSources returns the formats in the order of the list.
func schemaSources() []schemaSource {
	return []schemaSource{
		{"config", "the configuration of a node, symbio.yaml", config.Schema},
		{"agent", "the front matter of an agent's definition", definition.Schema},
		{"skill", "the front matter of a SKILL.md", format.Schema},
		{"events", "one event, a line of symbio events --json", event.Schema},
	}
}

// cmdSchema returns the command schema, which prints the JSON schema of a format, or the list of
// formats. It needs neither a file nor a node.
func cmdSchema(env *command.Env) *cobra.Command {
	var list bool
	names := command.Map(schemaSources(), func(s schemaSource) string { return s.Name })
	cmd := &cobra.Command{
		Use:       "schema [NAME]",
		Args:      command.RangeArgs(0, 1),
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case list == (len(args) > 0):
				return command.Usage(fmt.Errorf("give --list, or one of %s", strings.Join(names, ", ")))
			case list:
				return command.PrintList(env, schemaSources(), []string{"NAME", "OF"}, func(s schemaSource) []string { return []string{s.Name, s.About} })
			}
			i := slices.Index(names, args[0])
			if i < 0 {
				return command.NotFound(fmt.Errorf("there is no schema %q%s\nsymbio config schema --list prints all", args[0], visible.Suggest(args[0], names)))
			}
			schema, err := schemaSources()[i].make()
			if err != nil {
				return err
			}
			return env.PrintJSON(schema)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "print the names of the schemas")
	return cmd
}
