package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/security/audit"
)

func (a *App) cmdAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "The record of what agents and other nodes were allowed and refused",
		Long: `The record of what agents and other nodes were allowed and refused, which nobody changes unseen: each entry
holds the hash of the one before it. Of calls of other nodes each that differs has an entry; those that
repeat it are counted, once a minute. symbio events --type decision shows the same live.`,
		Example: `  symbio audit verify
  symbio audit show --since 24h`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdAuditVerify(), a.cmdAuditShow())
	return cmd
}

// auditDir is the record of the node that --node names, or of the only one that has one.
func (a *App) auditDir(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	state, err := a.state()
	if err != nil {
		return "", err
	}
	if a.node != "" {
		return state.Audit(a.node), nil
	}
	dirs, err := filepath.Glob(state.Audit("*"))
	if err != nil {
		return "", err
	}
	switch len(dirs) {
	case 0:
		return "", notFound(errors.New("no node here has a record yet: none has run an agent"))
	case 1:
		return dirs[0], nil
	}
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = filepath.Base(filepath.Dir(d))
	}
	return "", usage(fmt.Errorf("several nodes have a record: choose one with --node %s", strings.Join(names, ", --node ")))
}

// none makes of a folder that is not there an answer for people.
func none(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(fmt.Errorf("no record in %s: no agent has run there yet, or another node has it (--node NAME)", dir))
	}
	return err
}

func (a *App) cmdAuditVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [FOLDER]",
		Short: "Check that nothing in the record was changed, taken out or put in",
		Long: `Check that nothing in the record was changed, taken out or put in; the status is 1 if something was. That
nothing was cut off at its end shows only the last hash, which is printed: keep a copy of it elsewhere.`,
		Example: `  symbio audit verify --node kitchen
  symbio audit verify ./copy --json`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.auditDir(args)
			if err != nil {
				return err
			}
			r, err := audit.Verify(cmd.Context(), dir, nil)
			if err != nil {
				return none(dir, err)
			}
			if a.json {
				return a.printJSON(r)
			}
			whole := ""
			if r.First > 1 {
				whole = fmt.Sprintf(", from record %d on: older files are gone", r.First)
			}
			if r.Torn > 0 {
				whole += fmt.Sprintf(", %d cut off by the end of the process", r.Torn)
			}
			_, err = fmt.Fprintf(a.Out, "%d decisions in %d files, none changed%s\nlast hash %s\n", r.Records, r.Files, whole, r.Head)
			return err
		},
	}
}

func (a *App) cmdAuditShow() *cobra.Command {
	var since time.Duration
	var agent, verdict string
	cmd := &cobra.Command{
		Use:   "show [FOLDER]",
		Short: "The decisions in the record, the oldest first",
		Long: `The decisions in the record, the oldest first: when, who (for whom), what with which arguments, the verdict,
what came of it, and why.`,
		Example: `  symbio audit show --since 24h --verdict deny
  symbio audit show --agent planner --json`,
		Args: rangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.auditDir(args)
			if err != nil {
				return err
			}
			begin := time.Time{}
			if since > 0 {
				begin = time.Now().Add(-since)
			}
			_, err = audit.Verify(cmd.Context(), dir, func(e audit.Entry) error {
				if e.Time.Before(begin) || agent != "" && e.Agent != agent && e.Name != agent || verdict != "" && e.Verdict != verdict {
					return nil
				}
				if a.json {
					return a.printLine(e)
				}
				return a.printEntry(e)
			})
			return none(dir, err)
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "begin with what was decided this long ago, such as 24h")
	cmd.Flags().StringVar(&agent, "agent", "", "only of this agent or node, by id or name")
	cmd.Flags().StringVar(&verdict, "verdict", "", "only with this verdict: allow, ask or deny")
	return cmd
}

func (a *App) printEntry(e audit.Entry) error {
	what, who := "ran", chainOf(e.Name, e.For)
	if e.Kind == audit.KindInbound {
		what, who = "heard", "node "+chainOf(cmp.Or(e.Name, e.Agent), e.For)
	}
	if !e.Approved {
		what = "refused"
	}
	if e.Count > 0 {
		what = fmt.Sprintf("%s %d more", what, e.Count)
	}
	if e.By != "" {
		what += " by " + e.By
	}
	_, err := fmt.Fprintf(a.Out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.Local().Format(time.DateTime), who, printable(e.Tool),
		plainJSON(e.Args), e.Verdict, printable(what), printable(strings.TrimSpace(e.Rule+" "+e.Why)))
	return err
}
