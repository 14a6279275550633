package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/agentcmd"
	"symbio/cmd/symbio/internal/backupcmd"
	"symbio/cmd/symbio/internal/clustercmd"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/demo"
	"symbio/cmd/symbio/internal/guestcmd"
	"symbio/cmd/symbio/internal/mapcmd"
	"symbio/cmd/symbio/internal/mcpcmd"
	"symbio/cmd/symbio/internal/notifycmd"
	"symbio/cmd/symbio/internal/permissioncmd"
	"symbio/cmd/symbio/internal/sessioncmd"
	"symbio/cmd/symbio/internal/skillcmd"
	"symbio/cmd/symbio/internal/topcmd"
)

// Run runs the command of args (without the program's name) until it ends or a signal cancels its
// context, and returns the exit status of the process. It must be called once.
func Run(args []string) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	// Under nohup SIGHUP is ignored, and closing the terminal must not end the command.
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	// stop restores the default handling of signals, so that a second Ctrl-C ends a process that
	// hangs.
	context.AfterFunc(ctx, stop)
	return Main(ctx, args)
}

// Main runs the command of args (without the program's name) until it ends or ctx does, prints its
// error, and returns the exit status of the process. It blocks as long as the command runs. It
// reads and writes the standard streams of the process and must be called once.
func Main(ctx context.Context, args []string) int {
	env := command.NewEnv()
	// The tour's nodes find their model by this name in their configuration.
	env.Models = demo.Models()
	// cobra must write where the commands write, so that help and completion go to the same
	// streams.
	root := root(env)
	root.SetArgs(args)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	// The help must be in place before cobra parses the arguments, which may be --help.
	if err := helpOnDemand(root, args); err != nil {
		return command.Exit(ctx, env, root, err)
	}
	// cmd is the command that was found, which Exit names in the message; it is root when there is
	// no such command.
	cmd, err := root.ExecuteContextC(ctx)
	return command.Exit(ctx, env, cmd, err)
}

// root returns the command symbio with all commands below it. Only those that act on a running node
// get the flag --node. It is built anew for each run, because cobra keeps the values of flags in
// the commands.
func root(env *command.Env) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use: "symbio",
		// Exit of package command prints errors, with the exit status that belongs to them.
		SilenceErrors: true,
		SilenceUsage:  true,
		// Every command has a home directory to work with.
		PersistentPreRunE: env.CheckHome,
		Args:              command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(env)
			}
			text, err := overview(cmd)
			fmt.Fprint(env.Out, text)
			return err
		},
	}
	// --version is a flag of symbio alone, so that a command below it can have a flag of that name.
	// --json is one of all commands.
	root.Flags().BoolVar(&version, "version", false, "print the version, as symbio version does")
	root.PersistentFlags().BoolVar(&env.JSON, "json", false, "print JSON: one value, or one object per line for streams")
	root.SetFlagErrorFunc(command.FlagError)
	root.AddCommand(command.NodeFlag(env,
		cmdRun(env), cmdChat(env), clustercmd.New(env), cmdMembers(env), cmdNodes(env), cmdSend(env), cmdInvoke(env),
		cmdEvents(env), cmdApprovals(env), cmdDoctor(env), cmdConfig(env), cmdDashboard(env), topcmd.New(env), mapcmd.New(env), cmdACP(env),
	)...)
	root.AddCommand(
		backupcmd.Backup(env), backupcmd.Restore(env),
		demo.New(env), cmdUp(env), agentcmd.New(env), skillcmd.New(env), cmdSessions(env, sessioncmd.New(env)), mcpcmd.New(env),
		permissioncmd.New(env), notifycmd.New(env), cmdVersion(env), demo.Reports(env), guestcmd.Box(env), guestcmd.MCP(env),
	)
	addGroups(root)
	// cobra adds the command completion only when it runs. It is added here already, so that its
	// usage errors have exit status 2 like the usage errors of other commands.
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = command.NoArgs, command.RequireSubcommand
			completeQuoted(c)
		}
	}
	return root
}
