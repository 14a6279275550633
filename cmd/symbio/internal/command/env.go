package command

import (
	"io"
	"os"
	"os/user"
	"path/filepath"

	"github.com/spf13/cobra"

	"symbio/agent/llm"
	"symbio/cmd/symbio/internal/terminal"
	statedir "symbio/internal/agent/node/state"
)

// Env is what a command works with: the streams, the environment and the global flags. Its fields
// are set before a command runs and not changed afterwards, except Node, which runOwnNode sets to
// the name of the node that it started.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads an environment variable. Commands read the environment only through it, so that
	// a test can give them another one.
	Getenv func(string) string
	// OutIsTerminal, ErrIsTerminal and InIsTerminal report whether the stream is a terminal, which
	// means that a person reads the output or types the input. Colors, progress rows and questions
	// depend on them.
	OutIsTerminal, ErrIsTerminal, InIsTerminal bool

	// JSON is the flag --json: standard output is for a script. Then there is no text for people on
	// it.
	JSON bool
	// Node is the flag --node: the name of the running node to talk to; "" means the only one.
	Node string
	// Models are language models that are Go functions of this program, by the name that a
	// configuration gives them after "func:". The tour uses one.
	Models map[string]llm.Model
}

// NewEnv returns the Env of this process: its standard streams and its environment.
func NewEnv() *Env {
	return &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		OutIsTerminal: terminal.IsTerminal(os.Stdout), ErrIsTerminal: terminal.IsTerminal(os.Stderr), InIsTerminal: terminal.IsTerminal(os.Stdin),
	}
}

// State returns the directory in which this user's nodes keep keys, certificates, conversations and
// sockets: $XDG_STATE_HOME/symbio, or the system's default for it. The directory need not exist
// yet. CheckHome comes before.
func (env *Env) State() statedir.Dir {
	home, _ := homeOf(env.Getenv)
	return statedir.Default(home, env.Getenv)
}

// CheckHome returns an error if the user has no home directory. It is called before each command that
// may read or write there: all below symbio but version.
func (env *Env) CheckHome(cmd *cobra.Command, _ []string) (err error) {
	if cmd.HasParent() && cmd.Name() != "version" {
		_, err = homeOf(env.Getenv)
	}
	return err
}

// homeOf returns the user's home directory: $HOME, or the entry in the user database when the
// variable is missing, as it is for some services.
func homeOf(getenv func(string) string) (string, error) {
	if dir := getenv("HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}
