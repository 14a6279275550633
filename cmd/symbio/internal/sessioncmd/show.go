package sessioncmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
)

// cmdShow returns the command sessions show. Its exit status is 4 if there is no such session.
func cmdShow(env *command.Env) *cobra.Command {
	return readCommand(env, &cobra.Command{Use: "show ID", Args: command.ExactArgs(1)}, func(ctx context.Context, read reader, args []string) error {
		return printSession(ctx, env, read, args[0], env.JSON, false)
	})
}

// cmdExport returns the command sessions export.
func cmdExport(env *command.Env) *cobra.Command {
	var format string
	cmd := readCommand(env, &cobra.Command{Use: "export ID", Args: command.ExactArgs(1)}, func(ctx context.Context, read reader, args []string) error {
		if format != "markdown" && format != "jsonl" {
			return command.Usage(fmt.Errorf("--format %q: write markdown or jsonl", format))
		}
		return printSession(ctx, env, read, args[0], env.JSON || format == "jsonl", true)
	})
	cmd.Flags().StringVar(&format, "format", "markdown", "`FORMAT`: markdown, or jsonl for every entry with all fields")
	return cmd
}

// Markdown returns a session of this machine as the command sessions export prints it.
func Markdown(ctx context.Context, env *command.Env, id string) (string, error) {
	all, err := filesReader(env)(ctx, session.Query{Op: session.OpShow, ID: id})
	p := page{whole: true}
	for _, l := range all {
		p.add(l)
	}
	return p.String(), err
}

// printSession prints a session, as lines of JSON or as a page.
func printSession(ctx context.Context, env *command.Env, read reader, id string, lines, whole bool) error {
	all, err := read(ctx, session.Query{Op: session.OpShow, ID: id})
	if err != nil {
		return err
	}
	p := page{whole: whole}
	for _, l := range all {
		if p.add(l); lines {
			err = errors.Join(err, env.PrintLine(l))
		}
	}
	if lines {
		return err
	}
	return env.PrintText(p.String())
}

// page is a session in a form that is good to read in a terminal and is Markdown, too: calls and
// their results are indented, which makes them blocks of code.
type page struct {
	strings.Builder
	whole     bool // results and arguments are not cut
	exchanges int
	info      session.Info
}

// The longest result and line of a call in a page that is not whole.
const (
	maxLines   = 6
	maxLetters = 200
)

// paragraph adds a text that is not indented.
func (p *page) paragraph(text string) { fmt.Fprintf(p, "\n%s\n", strings.TrimSpace(text)) }

// block adds an indented text.
func (p *page) block(text string) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if more := len(lines) - maxLines; more > 0 && !p.whole {
		lines = append(lines[:maxLines], fmt.Sprintf("… %s; symbio sessions export %s has all", visible.Plural(more, "more line"), p.info.ID))
	}
	p.WriteString("\n")
	for _, line := range lines {
		if !p.whole {
			line = visible.TruncateRunes(line, maxLetters)
		}
		p.WriteString(strings.TrimRight("    "+line, " ") + "\n")
	}
}

// add adds a line of a session. Calls are shown with the answer that makes them, so their start is
// not.
func (p *page) add(l session.Line) {
	person := "you: "
	if p.info.Parent != "" || p.info.Requester != "" {
		person = "task: "
	}
	switch l.Kind {
	case "":
		i := *l.Session
		p.info = i
		fmt.Fprintf(p, "# %s\n", cmp.Or(i.Title, "(no task yet)"))
		p.paragraph(fmt.Sprintf("%s · %s · %s on node %s · %s  \n%s", i.ID, i.State, i.Agent, i.Node, chat.UsageText(i.Spent), i.Dir))
		if i.Parent != "" {
			p.paragraph("spawned in session " + i.Parent)
		}
	case session.Task:
		p.exchanges++
		p.paragraph(fmt.Sprintf("## %d · %s", p.exchanges, l.Time.Local().Format(time.DateTime)))
		p.paragraph(person + l.Message.Text)
	case session.Text:
		p.paragraph(person + l.Text)
	case session.Answer:
		p.answer(*l.Message)
	case session.Result:
		p.block(l.Result.Text)
	default:
		if text := l.Note(); text != "" {
			p.block("- " + text)
		}
	}
}

// answer adds an answer of the model.
func (p *page) answer(m llm.Message) {
	if m.Text != "" {
		p.paragraph(cmp.Or(p.info.Name, p.info.Agent) + ": " + m.Text)
	}
	for _, c := range m.Calls {
		p.block("> " + c.Name + " " + command.PlainJSON(c.Args))
	}
}
