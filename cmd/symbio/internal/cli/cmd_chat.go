package cli

import (
	"github.com/spf13/cobra"
)

func (a *App) cmdChat() *cobra.Command {
	f := conversing{manner: manner{keep: true, hello: "/help says what may be typed; Ctrl-C breaks an answer off, Ctrl-D leaves"}}
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with an agent",
		Long: `Talk with an agent, on the running node or, when there is none, on a node of its own that lives as long as
the conversation. The agent remembers what was said.

On a terminal each line is a message; pasted text stays one message, and a line that ends in \ goes on in the
next one. What is typed while the agent works steers it. /help shows the few commands that there are. Ctrl-C
breaks an answer off, a second one leaves, and so does Ctrl-D.

Without a terminal the lines of standard input are messages, each given when the one before is answered; the
answers are on standard output, and the status is 1 when one of them failed.`,
		Example: `  symbio chat
  symbio chat --agent reviewer --budget agents=4
  printf '%s\n' 'what is here?' 'and how much of it?' | symbio chat --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), &f) },
	}
	f.add(cmd)
	return cmd
}
