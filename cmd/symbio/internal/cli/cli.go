package cli

import (
	"context"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/node"
)

// App is what a command works with: the streams, the environment and the global flags.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads the environment; only this package does.
	Getenv func(string) string
	// OutIsTerminal, ErrIsTerminal, InIsTerminal: whether a person reads and types.
	OutIsTerminal, ErrIsTerminal, InIsTerminal bool

	json bool
	node string
}

// Terminal is the App of this process.
func Terminal() *App {
	return &App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		OutIsTerminal: isTerminal(os.Stdout), ErrIsTerminal: isTerminal(os.Stderr), InIsTerminal: isTerminal(os.Stdin),
	}
}

// Main runs one command and returns the exit status.
func Main(ctx context.Context, args []string, app *App) int {
	root := app.root()
	root.SetArgs(args)
	root.SetIn(app.In)
	root.SetOut(app.Out)
	root.SetErr(app.Err)
	cmd, err := root.ExecuteContextC(ctx)
	return app.exit(ctx, cmd, err)
}

func (a *App) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "symbio",
		Short: "Turn the machines on a LAN into one community of agents",
		Long: `Symbio turns the machines on a LAN into one community of agents. Start a node on each machine; the
nodes find each other, prove who they are, and their agents send each other signals and invoke each
other's capabilities.`,
		Example: `  symbio demo                 # the two-minute tour: no key, no network
  symbio up                   # run a node; a second one finds it
  symbio members              # who is here
  symbio cluster init         # let nodes of other machines in
  symbio run "say hello"      # give a task to an agent`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON: one object, or one per line for streams")
	root.PersistentFlags().StringVar(&a.node, "node", "", "which of this machine's nodes to talk to (default: the only one)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(
		a.cmdDemo(), a.cmdUp(), a.cmdRun(), a.cmdChat(), a.cmdJoin(), a.cmdCluster(),
		a.cmdMembers(), a.cmdNodes(), a.cmdSpawn(), a.cmdTerminate(), a.cmdSend(), a.cmdSteer(), a.cmdInvoke(), a.cmdCapabilities(), a.cmdModels(), a.cmdEvents(),
		a.cmdAgents(), a.cmdSkills(), a.cmdMCP(), a.cmdTools(), a.cmdPermissions(), a.cmdApprovals(), a.cmdAudit(), a.cmdDoctor(), a.cmdConfig(), a.cmdVersion(), a.cmdServeReports(),
	)
	return root
}

// state is where this user's nodes keep what lasts: $XDG_STATE_HOME/symbio, or what the system has
// in its place.
func (a *App) state() (node.State, error) {
	if dir := a.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return node.State{Dir: filepath.Join(dir, "symbio")}, nil
	}
	if dir := a.Getenv("LOCALAPPDATA"); runtime.GOOS == "windows" && filepath.IsAbs(dir) {
		return node.State{Dir: filepath.Join(dir, "symbio")}, nil
	}
	home, err := a.home()
	return node.State{Dir: filepath.Join(home, ".local", "state", "symbio")}, err
}

// home is the user's home directory, also where no variable names it.
func (a *App) home() (string, error) {
	if dir := a.Getenv("HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.HomeDir, nil
}
