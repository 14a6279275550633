package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"symbio/agent/definition"
	"symbio/agent/event"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/security/visible"
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
			case list && len(args) > 0:
				return command.Usage(errors.New("--list prints all names: leave out the name"))
			case list:
				return command.PrintList(env, schemaSources(), []string{"NAME", "OF"}, func(s schemaSource) []string { return []string{s.Name, s.About} })
			case len(args) == 0:
				return command.Usage(fmt.Errorf("name a schema: one of %s", strings.Join(names, ", ")))
			}
			return printSchema(env, args[0], names)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "print the names of the schemas")
	return cmd
}

// printSchema prints the schema of that name; names are all there are.
func printSchema(env *command.Env, name string, names []string) error {
	for _, s := range schemaSources() {
		if s.Name != name {
			continue
		}
		schema, err := s.make()
		if err != nil {
			return err
		}
		return env.PrintJSON(schema)
	}
	return command.NotFound(fmt.Errorf("there is no schema %q%s\nsymbio schema --list prints all", name, visible.Suggest(name, names)))
}
