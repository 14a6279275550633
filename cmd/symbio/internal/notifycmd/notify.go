// Package notifycmd has the command `symbio notify`: where the nodes of this user send what waits for a person, and what has
// ended. Its commands need no running node; running ones use a new target from the next message on.
package notifycmd

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/notify"
	"symbio/internal/security/visible"
)

// New returns the command notify, which groups the commands for targets of messages.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "notify", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(addCommand(env), listCommand(env), removeCommand(env), testCommand(env))
	return cmd
}

// addCommand returns the command notify add. A target of the same name is replaced. Its exit status is 2 for a target that
// cannot be used.
func addCommand(env *command.Env) *cobra.Command {
	var t notify.Target
	cmd := &cobra.Command{
		Use:  "add ntfy URL | webhook URL | command -- PROGRAM ARGS...",
		Args: command.MinArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if t.Kind = args[0]; t.Kind == notify.Command {
				t.Command = args[1:]
			} else if t.URL = args[1]; len(args) > 2 {
				return command.Usage(fmt.Errorf("%s takes one URL", t.Kind))
			}
			if t.Name == "" {
				t.Name = t.Kind
			}
			if err := t.Check(); err != nil {
				return command.Usage(err)
			}
			targets, failures := notify.Books(env.State())
			if err := targets.Put(t); err != nil {
				return err
			}
			_ = failures.Remove(t.Name) // of an earlier target of that name, if it had one
			env.Notef("next: symbio notify test %s", t.Name)
			return printTargets(env, []notify.Target{t})
		},
	}
	cmd.Flags().StringVar(&t.Name, "name", "", "`NAME` of the target (default ntfy, webhook or command)")
	return cmd
}

// targetJSON is a target in the output. The JSON names are a contract. The URL is not there: who has it can send.
type targetJSON struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Place is the command, or the URL without its path.
	Place string `json:"place"`
	// Failed says why the last message was not sent.
	Failed string `json:"failed,omitempty"`
}

// printTargets prints targets, each with why its last message was not sent.
func printTargets(env *command.Env, targets []notify.Target) error {
	_, failures := notify.Books(env.State())
	all := command.Map(targets, func(t notify.Target) targetJSON {
		failed, _ := failures.Find(t.Name)
		return targetJSON{t.Name, t.Kind, t.Place(), failed.Why}
	})
	return command.PrintList(env, all, []string{"NAME", "KIND", "PLACE", "FAILED"}, func(t targetJSON) []string {
		return []string{t.Name, t.Kind, t.Place, t.Failed}
	})
}

// targetsOf returns the targets, sorted by name; with a name only that one. A target that is not there has exit status 4.
func targetsOf(env *command.Env, name string) ([]notify.Target, error) {
	targets, _ := notify.Books(env.State())
	all, err := targets.All()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b notify.Target) int { return strings.Compare(a.Name, b.Name) })
	if name == "" {
		return all, nil
	}
	i := slices.IndexFunc(all, func(t notify.Target) bool { return t.Name == name })
	if i < 0 {
		names := command.Map(all, func(t notify.Target) string { return t.Name })
		return nil, command.NotFound(fmt.Errorf("no target is called %q%s", name, visible.Suggest(name, names)))
	}
	return all[i : i+1], nil
}

func listCommand(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := targetsOf(env, "")
			if err != nil {
				return err
			}
			return printTargets(env, all)
		},
	}
}

func removeCommand(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "remove NAME",
		Args: command.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := targetsOf(env, args[0]); err != nil {
				return err
			}
			targets, failures := notify.Books(env.State())
			err := failures.Remove(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return errors.Join(targets.Remove(args[0]), err)
		},
	}
}

// testCommand returns the command notify test. It sends one message, without repetitions. Its exit status is 1 if a target
// does not take it.
func testCommand(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "test [NAME]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := targetsOf(env, append(args, "")[0])
			if err == nil && len(all) == 0 {
				err = command.NotFound(errors.New("there is no target; add one: symbio notify add ntfy https://ntfy.sh/TOPIC"))
			}
			if err != nil {
				return err
			}
			m := notify.Message{Title: "symbio", Text: "This is a test. Questions of agents, and the ends of their tasks, come here."}
			_, failures := notify.Books(env.State())
			for _, t := range all {
				if failed := t.Send(cmd.Context(), m); failed != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", t.Name, failed))
					continue
				}
				_ = failures.Remove(t.Name) // it may have none
				env.Notef("%s: sent", t.Name)
			}
			return err
		},
	}
}
