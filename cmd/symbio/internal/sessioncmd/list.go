package sessioncmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/agent/budget"
	"symbio/agent/session"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
)

// states are the states of sessions.
var states = []session.State{session.Idle, session.Working, session.Done, session.Failed, session.Interrupted, session.Lost}

// cmdList returns the command sessions list.
func cmdList(env *command.Env) *cobra.Command {
	q := session.Query{Op: session.OpList}
	cmd := readCommand(env, &cobra.Command{Use: "list", Args: command.NoArgs}, func(ctx context.Context, read reader, _ []string) (err error) {
		if q.State != "" && !slices.Contains(states, q.State) {
			return command.Usage(fmt.Errorf("--state %q is none of %s", q.State, strings.Trim(fmt.Sprint(states), "[]")))
		}
		if q.Dir != "" {
			if q.Dir, err = filepath.Abs(q.Dir); err != nil {
				return err
			}
		}
		lines, err := read(ctx, q)
		if err != nil {
			return err
		}
		if q.Limit > 0 && len(lines) == q.Limit && env.OutIsTerminal {
			defer env.Notef("these are the latest %d; --limit 0 lists all", q.Limit)
		}
		return printSessions(env, command.Map(lines, func(l session.Line) session.Info { return *l.Session }))
	})
	cmd.Flags().StringVar(&q.Dir, "dir", "", "only sessions of the working directory `DIR` (default all)")
	cmd.Flags().StringVar((*string)(&q.State), "state", "", "only sessions in this `STATE`: idle, working, done, failed, interrupted or lost (default all)")
	cmd.Flags().BoolVar(&q.Items, "map", false, "list the items of symbio map and of programs, which are left out else")
	cmd.Flags().BoolVar(&q.All, "all", false, "list all: those of sub-agents and the items of symbio map, too")
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "list the latest `N`; 0 lists all")
	cmd.MarkFlagsMutuallyExclusive("map", "all")
	return cmd
}

// otherColumns is the width of a table of sessions on a terminal without the titles.
const otherColumns = 57

// printSessions prints a table of sessions. On a terminal each takes one line: without the turns, the
// agent and the directories above its own, and with as much of the title as fits.
func printSessions(env *command.Env, all []session.Info) error {
	heading := []string{"ID", "STATE", "AGE", "COST", "TURNS", "AGENT", "DIR", "TITLE"}
	short := env.OutIsTerminal && !env.JSON
	if short {
		heading = slices.Delete(heading, 4, 6)
	}
	return command.PrintList(env, all, heading, func(i session.Info) []string {
		cost := budget.Rounded(i.Spent.Tokens) + " tok"
		if i.Spent.Cost > 0 {
			cost = chat.CostText(i.Spent)
		}
		row := []string{i.ID, string(i.State), ageText(i.Updated), cost}
		if !short {
			return append(row, fmt.Sprint(i.Turns), i.Agent, i.Dir, i.Title)
		}
		return append(row, terminal.Clip(filepath.Base(i.Dir), 13), terminal.Clip(i.Title, max(12, terminal.Columns(env.Out)-otherColumns)))
	})
}

// ageText returns the time since t in at most four characters: 59s, 59m, 47h, 999d.
func ageText(t time.Time) string {
	d := max(0, time.Since(t))
	for _, unit := range []struct {
		limit, length time.Duration
		name          string
	}{{time.Minute, time.Second, "s"}, {time.Hour, time.Minute, "m"}, {48 * time.Hour, time.Hour, "h"}} {
		if d < unit.limit {
			return fmt.Sprint(int(d/unit.length), unit.name)
		}
	}
	return fmt.Sprint(int(d/(24*time.Hour)), "d")
}

// cmdSearch returns the command sessions search.
func cmdSearch(env *command.Env) *cobra.Command {
	q := session.Query{Op: session.OpSearch}
	cmd := readCommand(env, &cobra.Command{Use: "search WORDS", Args: command.MinArgs(1)}, func(ctx context.Context, read reader, args []string) error {
		if q.Words = strings.Join(args, " "); strings.TrimSpace(q.Words) == "" || q.Limit < 1 {
			return command.Usage(errors.New("write words to search for, and a --limit from 1 on"))
		}
		found, err := read(ctx, q)
		if err != nil {
			return err
		}
		return command.PrintList(env, found, []string{"ID", "AGE", "TITLE", "FOUND"}, func(l session.Line) []string {
			return []string{l.Session.ID, ageText(l.Session.Updated), l.Session.Title, l.Text}
		})
	})
	cmd.Flags().IntVar(&q.Limit, "limit", 20, "show at most `N` places, the latest ones")
	return cmd
}
