package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"symbio/agent/tool"
	"symbio/security/permission"
)

func (a *App) cmdPermissions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "permissions",
		Short: "What agents may do, and why",
		Example: `  symbio permissions check Read '{"file_path": "notes.md"}'
  symbio permissions test policy-cases.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdPermissionsCheck(), a.cmdPermissionsTest())
	return cmd
}

// verdictJSON is a verdict in the output; the names are a contract.
type verdictJSON struct {
	Verdict string `json:"verdict"`
	Stage   string `json:"stage"`
	Rule    string `json:"rule"`
	Source  string `json:"source"`
	Why     string `json:"why"`
	// At is where the rule stands: FILE:LINE:COLUMN or "preset NAME".
	At string `json:"at"`
	// Change is what would give another verdict: rules to add, and what they give. Never says why none can.
	Change []ruleChangeJSON `json:"change"`
	Gives  string           `json:"gives"`
	Wider  string           `json:"wider,omitempty"`
	Never  string           `json:"never,omitempty"`
}

type ruleChangeJSON struct {
	List string `json:"list"`
	Rule string `json:"rule"`
}

func verdictOf(e permission.Explanation) verdictJSON {
	v := e.Verdict
	out := verdictJSON{Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Why: v.Why, At: e.At, Change: []ruleChangeJSON{}, Wider: e.Wider, Never: e.Never}
	if len(e.Changes) > 0 {
		out.Gives = e.To.String()
	}
	for _, c := range e.Changes {
		out.Change = append(out.Change, ruleChangeJSON{c.List, c.Rule})
	}
	return out
}

func (a *App) cmdPermissionsCheck() *cobra.Command {
	var file, rules string
	cmd := &cobra.Command{
		Use:   "check TOOL [ARGS]",
		Short: "The verdict on a tool call, and the rule that decided",
		Long: `Print the verdict on a tool call under the configured permissions, or those of --rules FILE (the same
keys: preset, allow, deny, final_deny, override, default). ARGS is a JSON object; - reads it from
standard input. Nothing is run. It also says where the rule stands that decided, and the smallest change that would give
another verdict, which has been tried.`,
		Example: `  symbio permissions check Write '{"file_path": "notes.md"}'
  symbio permissions check Bash '{"command": "git push"}' --rules rules.yaml`,
		Args: rangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			call, err := a.toolCall(args[0], append(args, "")[1])
			if err != nil {
				return err
			}
			policy, err := a.rules(file, rules)
			if err != nil {
				return err
			}
			e := permission.Chain{{Name: "check", Policy: policy}}.Explain(call)
			out := verdictOf(e)
			if a.json {
				return a.printJSON(out)
			}
			_, err = fmt.Fprintf(a.Out, "%s\t%s\t%s\n", out.Verdict, out.Stage, printable(out.Why))
			if err == nil && out.Rule != "" && out.At != "" {
				_, err = fmt.Fprintf(a.Out, "\trule %s (%s)\n", printable(out.Rule), printable(out.At))
			}
			if err == nil {
				_, err = fmt.Fprintf(a.Out, "\t%s\n", printable(e.Change()))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file")
	cmd.Flags().StringVar(&rules, "rules", "", "a YAML file of rules to use instead of the configured ones")
	return cmd
}

// toolCall reads the arguments as the call of a tool would have them.
func (a *App) toolCall(name, text string) (permission.Call, error) {
	dir, err := os.Getwd()
	if err != nil {
		return permission.Call{}, err
	}
	call := permission.Call{Tool: name, Args: map[string]any{}, Dir: dir}
	if text == "" {
		return call, nil
	}
	data := []byte(text)
	if text == "-" {
		if data, err = io.ReadAll(a.In); err != nil {
			return call, fmt.Errorf("reading standard input: %w", err)
		}
	}
	if call.Args, err = tool.DecodeArgs(data); err != nil {
		return call, usage(fmt.Errorf("ARGS: want a JSON object such as {\"file_path\": \"notes.md\"}: %w", err))
	}
	return call, nil
}

// rules is the policy of a file of rules, or the configured one.
func (a *App) rules(config, file string) (permission.Policy, error) {
	if file == "" {
		c, _, err := a.loadConfig(config)
		if err != nil {
			return permission.Policy{}, err
		}
		return c.Permissions.Policy()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return permission.Policy{}, err
	}
	var c permission.Config
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return permission.Policy{}, fmt.Errorf("%s: %w", file, err)
	}
	policy, err := c.In(file).Policy()
	if err != nil {
		return permission.Policy{}, fmt.Errorf("%s: %w", file, err)
	}
	return policy, nil
}
