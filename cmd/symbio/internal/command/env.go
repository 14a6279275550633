package command

import (
	"io"
	"os"
	"os/user"
	"path/filepath"

	"symbio/agent/llm"
	statedir "symbio/agent/node/state"
	"symbio/cmd/symbio/internal/terminal"
)

// Env is what a command works with: the streams, the environment and the global flags.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads the environment; only this package does.
	Getenv func(string) string
	// OutIsTerminal, ErrIsTerminal, InIsTerminal: whether a person reads and types.
	OutIsTerminal, ErrIsTerminal, InIsTerminal bool

	// JSON is --json: what is printed is for a script.
	JSON bool
	// Node is --node: the running node to talk to; "" = the only one.
	Node string
	// Models are models of this program, by the names that a configuration gives them.
	Models map[string]llm.Model
}

// NewEnv is the Env of this process.
func NewEnv() *Env {
	return &Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		OutIsTerminal: terminal.IsTerminal(os.Stdout), ErrIsTerminal: terminal.IsTerminal(os.Stderr), InIsTerminal: terminal.IsTerminal(os.Stdin),
	}
}

// State is where this user's nodes keep what lasts: $XDG_STATE_HOME/symbio, or what the system has
// in its place.
func (env *Env) State() (statedir.Dir, error) {
	home, err := env.home()
	return statedir.Default(home, env.Getenv), err
}

// home is the user's home directory, also where no variable names it.
func (env *Env) home() (string, error) {
	if dir := env.Getenv("HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}
