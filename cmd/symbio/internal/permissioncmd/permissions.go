// Package permissioncmd has the command `symbio permissions`: it explains and tests rules with the code
// that judges the calls of agents, and shows the record of decisions. It needs no running node, and
// executes no call.
package permissioncmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"symbio/agent/node"
	"symbio/agent/node/config"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/agent/tool/cases"
	"symbio/internal/security/visible"
	"symbio/security/permission"
	"symbio/security/sandbox"
)

// New returns the command permissions, which groups the commands that explain and test
// rules, and show the record of decisions. check and test need no running node: both run the code that
// judges the calls of agents, and execute no call.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "permissions", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(cmdPermissionsCheck(env), cmdPermissionsTest(env))
	cmd.AddCommand(command.NodeFlag(env, cmdAudit(env))...)
	return cmd
}

// verdictJSON is the verdict on a call. The JSON names are a contract.
type verdictJSON struct {
	// Verdict is allow, ask or deny.
	Verdict string `json:"verdict"`
	// Stage is the step of the evaluation that decided, such as "deny" or "default".
	Stage string `json:"stage"`
	// Rule is the deciding rule, "" if none matched. Source is where it comes from, such as
	// "config" or "skill:NAME".
	Rule   string `json:"rule"`
	Source string `json:"source"`
	// Why is the reason in a sentence.
	Why string `json:"why"`
	// At is where the rule stands: FILE:LINE:COLUMN, or "preset NAME".
	At string `json:"at"`
	// Box is what holds a command: look, work or network; "" for other tools.
	Box string `json:"box,omitempty"`
	// Change has the rules to add for another verdict, and Gives that verdict. Wider says what else
	// they would allow. Never says why no rule can change the verdict. Change is [] and Gives is ""
	// when no rule can change the verdict.
	Change []permission.Change `json:"change"`
	Gives  string              `json:"gives"`
	Wider  string              `json:"wider,omitempty"`
	Never  string              `json:"never,omitempty"`
	// Kept says how a command is prevented from reading files that a rule denies.
	Kept string `json:"kept,omitempty"`
}

// verdictOf returns an explanation as it stands in the output. Kept is filled in by the caller.
func verdictOf(e permission.Explanation) verdictJSON {
	v := e.Verdict
	out := verdictJSON{Verdict: v.Action.String(), Stage: string(v.Stage), Rule: v.Rule, Source: v.Source, Why: v.Why, Box: string(v.Box),
		At: e.At, Change: append([]permission.Change{}, e.Changes...), Wider: e.Wider, Never: e.Never}
	if len(e.Changes) > 0 {
		out.Gives = e.To.String()
	}
	return out
}

// cmdPermissionsCheck returns the command permissions check, which explains the verdict on one call
// without running it. Its exit status is 0 whatever the verdict is. It judges by the rules alone:
// approvals of the session, rules of skills and guardrails of an agent can change the verdict of a
// real call.
func cmdPermissionsCheck(env *command.Env) *cobra.Command {
	var file, rules string
	cmd := &cobra.Command{
		Use:  "check TOOL [ARGS]",
		Args: command.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			call, err := command.ToolCall(env.In, args[0], append(args, "")[1])
			if err != nil {
				return err
			}
			settings := *env
			if rules != "" {
				// The rules of the configuration do not count, so a note about it would mislead.
				settings.Err = io.Discard
			}
			opts, err := command.NodeConfig(&settings, file)
			if err != nil {
				return err
			}
			policy, err := policyOf(opts.Settings.Permissions, rules)
			if err != nil {
				return err
			}
			// Preparing a sandbox is slow, and only calls with denied files need one.
			box := sync.OnceValue(func() *sandbox.Box { return opts.Holds(cmd.Context()) })
			// Whether the sandbox can hide denied files changes the verdict on a command.
			call.Kept = func(d *permission.FileDenials) bool { _, kept := opts.Kept(box(), d); return kept }
			held, err := opts.Settings.Sandbox.Policy(opts.Workspace(), opts.Home)
			unheld := err != nil || opts.Settings.Sandbox.IsOff()
			call.HasBox = func(b permission.Box) bool {
				return b == permission.BoxLook && box().Looks() == nil || b == permission.BoxWork && !unheld && box().Works(held)
			}
			// A chain of one policy: a real call also passes the policies of the agent's definition and of
			// its requesters.
			e := permission.Chain{{Name: "check", Policy: policy, Memory: new(permission.Memory)}}.Explain(call)
			var lacking *sandbox.Refusal
			if v := e.Verdict; v.Action == permission.Allow && v.Box != "" && v.Box != permission.BoxLook && !unheld &&
				errors.As(box().Check(held), &lacking) {
				e = permission.Explanation{Verdict: permission.Verdict{Action: permission.Ask, Stage: permission.StageSandbox,
					Source: "sandbox", Box: v.Box, Why: "The rules allow it, but " + lacking.Error() + "."}, Never: "the sandbox decides it"}
				if lacking.Level == sandbox.None {
					e.Verdict.Action = permission.Deny
				}
			}
			if err := (permission.Tools{Names: node.Known(nil).Tools}).Check(call.Tool); err != nil {
				return command.NotFound(err)
			}
			// A tool refuses wrong arguments before any rule is asked.
			if why := cases.Refusal(call); why != "" {
				e = permission.Explanation{Verdict: permission.Verdict{Why: why}, Never: "the tool does not accept these arguments"}
			}
			out := verdictOf(e)
			if p := e.Verdict.Plan; p != nil && len(p.Denied.Rules()) > 0 {
				out.Kept, _ = opts.Kept(box(), p.Denied)
			}
			if env.JSON {
				return env.PrintJSON(out)
			}
			err = env.Printf("%s\t%s\t%s\n", out.Verdict, out.Stage, out.Why)
			if err == nil && out.Rule != "" && out.At != "" {
				err = env.Printf("\trule %s (%s)\n", out.Rule, out.At)
			}
			if err == nil && out.Box != "" {
				err = env.Printf("\tbox %s\n", out.Box)
			}
			if err == nil && out.Kept != "" {
				err = env.Printf("\t%s\n", out.Kept)
			}
			if err == nil {
				err = env.Printf("\t%s\n", e.Change())
			}
			return err
		},
	}
	command.ConfigFlag(cmd, &file)
	cmd.Flags().StringVar(&rules, "rules", "", "YAML `FILE` with the rules to use instead of the configured ones")
	return cmd
}

// policyOf returns the policy of the rules in file, else the policy of the configured ones. An empty file
// gives a policy without rules. Errors name the file.
func policyOf(configured permission.Config, file string) (permission.Policy, error) {
	if file == "" {
		return configured.Policy()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return permission.Policy{}, err
	}
	var c permission.Config
	dec := yaml.NewDecoder(bytes.NewReader(text))
	// A misspelled key must not silently leave out a rule.
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return permission.Policy{}, fmt.Errorf("%s: %s", file, config.DecodeError(text, err))
	}
	c = c.In(file)
	policy, err := c.Policy()
	if err == nil {
		err = node.CheckRules(node.Config{Settings: config.Config{Permissions: c}})
	}
	if err != nil {
		return permission.Policy{}, fmt.Errorf("%s: %w", file, err)
	}
	return policy, nil
}

// cmdPermissionsTest returns the command permissions test. Its exit status is 1 if any case has
// another verdict than the expected one. It stops at the first file that cannot be read. Files are
// judged one after the other, because cases.World sets the HOME of this process.
func cmdPermissionsTest(env *command.Env) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:  "test FILE...",
		Args: command.MinArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			world, err := cases.NewWorld()
			if err != nil {
				return err
			}
			tally := &tally{env: env, world: world, all: all}
			for _, file := range files {
				if err = tally.judgeFile(cmd.Context(), file); err != nil {
					err = fmt.Errorf("%s: %w", file, err)
					break
				}
			}
			// Close removes the directories of the cases and restores HOME, also after an error.
			return errors.Join(err, world.Close(), tally.printTotals(err))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also print the cases with the expected verdict")
	return cmd
}

// tally judges files of cases and counts the results. Cases for other operating systems are skipped
// and counted apart. It is for one goroutine.
type tally struct {
	env   *command.Env
	world *cases.World
	// all also prints the cases with the expected verdict.
	all bool

	// judged counts all cases, differ the ones with another verdict, elsewhere the cases of other systems.
	judged, differ, elsewhere int
}

// judgeFile judges all cases of a file; "-" is standard input. A case that cannot be judged counts
// as one with another verdict, so that the others are still judged. The error comes from the file,
// of writing, or the cause of ctx.
func (t *tally) judgeFile(ctx context.Context, name string) error {
	var from io.Reader = t.env.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	list, err := cases.Read(from)
	if err != nil {
		return errors.New(config.PlainError(err))
	}
	for _, c := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.IsOtherOS() {
			t.elsewhere++
			continue
		}
		r, err := t.world.Judge(c)
		if err != nil {
			r = cases.Result{ID: c.ID, Expect: c.Expect, Why: "The case cannot be judged: " + config.PlainError(err)}
		}
		if err := t.print(c, r); err != nil {
			return err
		}
	}
	return nil
}

// print counts a result and prints it if it differs, or always with --all. With --json every result
// is printed. The error is one of writing.
func (t *tally) print(c cases.Case, r cases.Result) error {
	t.judged++
	if !r.OK {
		t.differ++
	}
	if t.env.JSON {
		return t.env.PrintLine(r)
	}
	if r.OK && !t.all {
		return nil
	}
	mark := "ok"
	if !r.OK {
		mark = "DIFFERS"
	}
	_, err := fmt.Fprintf(t.env.Out, "%s\t%s\twant %s\tgot %s\t%s\n", mark, terminal.Printable(r.ID), r.Expect, r.Verdict, terminal.Printable(r.Why))
	if err == nil && !r.OK && c.Why != "" {
		_, err = fmt.Fprintf(t.env.Out, "\t%s\n", terminal.Printable(c.Why))
	}
	return err
}

// printTotals prints the totals, and returns an error if a case differed. After an earlier error it
// prints nothing. The totals are on standard error, so that standard output has only results.
func (t *tally) printTotals(broken error) error {
	if broken != nil {
		return nil
	}
	elsewhere := ""
	if t.elsewhere > 0 {
		elsewhere = fmt.Sprintf(", %d for other systems left out", t.elsewhere)
	}
	if t.differ > 0 {
		return fmt.Errorf("%d of %s not as expected%s", t.differ, visible.Plural(t.judged, "case"), elsewhere)
	}
	fmt.Fprintf(t.env.Err, "%s as expected%s\n", visible.Plural(t.judged, "case"), elsewhere)
	return nil
}
