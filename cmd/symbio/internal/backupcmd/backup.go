// Package backupcmd has the commands that save all that this user's nodes keep in one file, and that
// restore it: `symbio backup` and `symbio restore`.
package backupcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/backup"
	"symbio/internal/security/passphrase"
)

// resultJSON is what both commands print with --json. The JSON names are a contract.
type resultJSON struct {
	backup.Manifest
	// File is the backup, Bytes how long it is.
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// Encrypted says whether it needs a passphrase.
	Encrypted bool `json:"encrypted"`
}

// Backup returns the command backup. Nodes may run meanwhile. Its exit status is 2 when there is no
// passphrase, and 4 when there is no node to save.
func Backup(env *command.Env) *cobra.Command {
	var open bool
	cmd := &cobra.Command{Use: "backup FILE", Args: command.ExactArgs(1)}
	secret := command.NewPassphrase(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		file, text := args[0], ""
		// A person is not asked for a passphrase in vain.
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("%s exists, and a backup overwrites nothing; name another file", file)
		}
		if !open {
			if text, err = secret.New("the backup"); err != nil {
				return err
			}
		}
		m, err := backup.Create(cmd.Context(), file, text, command.Version().Version, places(env, true))
		if errors.Is(err, backup.ErrNoNode) {
			return command.NotFound(err)
		}
		if err != nil {
			return err
		}
		for _, path := range m.LeftOut {
			env.Notef("%s is not in the backup, because this user cannot read it", path)
		}
		if open && !env.JSON {
			env.Notef("%s is not encrypted: who has it can act as the nodes in it", file)
		}
		return printResult(env, "saved", file, m)
	}
	cmd.Flags().BoolVar(&open, "no-passphrase", false, "do not encrypt the backup: who can read it can act as your nodes")
	cmd.MarkFlagsMutuallyExclusive("no-passphrase", "passphrase-file")
	return cmd
}

// Restore returns the command restore. It overwrites nothing. Its exit status is 3 for a wrong
// passphrase.
func Restore(env *command.Env) *cobra.Command {
	var noConfig bool
	cmd := &cobra.Command{Use: "restore FILE", Args: command.ExactArgs(1)}
	secret := command.NewPassphrase(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to := places(env, !noConfig)
		m, err := backup.Restore(cmd.Context(), args[0], func() (string, error) { return secret.Ask("the backup") }, to)
		switch {
		case errors.Is(err, passphrase.ErrWrong):
			return command.Denied(fmt.Errorf("%s: %w; nothing was changed", args[0], err))
		case errors.Is(err, backup.ErrOccupied):
			return fmt.Errorf("%w\nNothing was changed. Stop the nodes here and move both directories away: mv %s %s.before; mv %s %[2]s.before\n"+
				"Or restore beside them, with other directories in XDG_STATE_HOME and XDG_CONFIG_HOME; or leave out the configuration: --no-config",
				err, to.State, to.State, filepath.Dir(env.UserConfig()))
		case err != nil:
			return err
		}
		if err := printResult(env, "restored", args[0], m); err != nil {
			return err
		}
		for _, n := range m.Nodes {
			env.Notef("start node %s with: symbio up --name %[1]s", n.Name)
		}
		env.Notef("a node runs on one machine only: where this backup was made, do not start it again (of two machines with one key the later one ends)")
		return nil
	}
	cmd.Flags().BoolVar(&noConfig, "no-config", false, "restore the state, and leave the configuration here as it is")
	return cmd
}

// places returns the directories of this user.
func places(env *command.Env, config bool) backup.Places {
	p := backup.Places{State: env.State()}
	if config {
		p.Config = filepath.Dir(env.UserConfig())
	}
	return p
}

// printResult prints what a backup has.
func printResult(env *command.Env, done, file string, m backup.Manifest) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, passphrase.HeaderSize)
	_, readErr := f.Read(start)
	info, err := f.Stat()
	if err := errors.Join(readErr, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(resultJSON{m, file, info.Size(), passphrase.Encrypted(start)})
	}
	names := command.Map(m.Nodes, func(n backup.Node) string { return "node " + n.Name + " (" + string(n.ID) + ")" })
	if m.Authority != "" {
		names = append(names, "the authority of cluster "+m.Authority)
	}
	return env.Printf("%s %s: %s\n", done, strings.Join(names, ", "), file)
}
