package permissioncmd

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	statedir "symbio/internal/agent/node/state"
	"symbio/internal/security/audit"
	"symbio/internal/security/visible"
)

// cmdAudit returns the command audit, which groups the commands for the record of decisions. They
// read files and need no running node. The record is in the state directory of the node: files with
// one JSON object on a line, each with the hash of the one before.
func cmdAudit(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(cmdAuditVerify(env), cmdAuditShow(env))
	return cmd
}

// findRecord returns the node whose record is meant, its name, and the folder of the record. That
// is the folder in args, a copy whose node is not known (name is ""), else the node that --node
// names, else the only node that has a record. Without --node and without any record its error has
// exit status 4, with several records 2.
func findRecord(env *command.Env, args []string) (state statedir.Dir, name, dir string, err error) {
	if len(args) > 0 {
		return state, "", args[0], nil
	}
	if state = env.State(); env.Node != "" {
		return state, env.Node, state.Node(env.Node).Audit(), nil
	}
	// A node whose record is gone but whose checkpoint is left counts, too: verify must report
	// that.
	names := state.Recorded()
	switch len(names) {
	case 0:
		return state, "", "", command.NotFound(errors.New("no node here has a record of decisions yet, because none has run an agent"))
	case 1:
		return state, names[0], state.Node(names[0]).Audit(), nil
	}
	return state, "", "", command.Usage(fmt.Errorf("several nodes have a record: choose one with --node %s", strings.Join(names, ", --node ")))
}

// noRecord turns the error of a missing folder into one that says what to do, with exit status 4.
// Other errors are returned unchanged.
func noRecord(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return command.NotFound(fmt.Errorf("no record in %s: no agent has run there, or another node has the record (choose it with --node NAME)", dir))
	}
	return err
}

// cmdAuditVerify returns the command audit verify. It checks the chain of hashes and that nothing
// is missing up to the checkpoint; its exit status is 1 if something was changed. It can run while
// the node writes.
func cmdAuditVerify(env *command.Env) *cobra.Command {
	var noted string
	cmd := &cobra.Command{
		Use:  "verify [FOLDER]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, name, dir, err := findRecord(env, args)
			if err != nil {
				return err
			}
			var c audit.Checkpoint
			var points []audit.Point
			// The checkpoint is read before the record, because a running node may append to the
			// record meanwhile: a later checkpoint could name an entry that was not read.
			if name != "" {
				if c, err = state.Node(name).ReadCheckpoint(); err == nil {
					// The checkpoint is signed by the node and kept apart from the record, so that
					// a process that can cut the record cannot hide it. A wrong signature is an
					// error; a missing checkpoint is handled below, after the chain was checked.
					points = append(points, audit.Point{Seq: c.Seq, Hash: c.Hash})
				} else if !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			if noted != "" {
				// A noted hash has no number: it may stand anywhere in the record.
				points = append(points, audit.Point{Hash: noted})
			}
			r, err := audit.Verify(cmd.Context(), dir, nil, points...)
			if err != nil {
				return noRecord(dir, err)
			}
			// A folder in the arguments is a copy without a checkpoint, which is no error;
			// verifySummary says what that means.
			if name != "" && c.Hash == "" && r.Last > 0 {
				return fmt.Errorf("verify the record: there is no checkpoint (%s), so a cut-off end cannot be detected; it was removed, or the node has not run since this version was installed; the %d entries that are there are unchanged", state.Node(name).Checkpoint(), r.Records)
			}
			if env.JSON {
				return env.PrintJSON(struct {
					audit.Report
					// Checkpoint is the number of the entry up to which none is missing.
					Checkpoint uint64 `json:"checkpoint"`
				}{r, c.Seq})
			}
			_, err = fmt.Fprintf(env.Out, "%s in %s, none changed%s\nlast hash %s\n", visible.Plural(int(r.Records), "decision"), visible.Plural(int(r.Files), "file"),
				verifySummary(r, c), r.Head)
			return err
		},
	}
	cmd.Flags().StringVar(&noted, "noted", "", "`HASH` that the record must contain, as verify printed it before")
	return cmd
}

// verifySummary returns how much of the record was checked against what, for people. It begins with
// the break or the comma that joins it to the line before.
func verifySummary(r audit.Report, c audit.Checkpoint) string {
	how := ""
	// A person may remove old files, which is no fault.
	if r.First > 1 {
		how = fmt.Sprintf(", from record %d on: older files are gone", r.First)
	}
	if r.Torn > 0 {
		how += fmt.Sprintf(", %d cut off by the end of the process", r.Torn)
	}
	for _, seq := range r.Unanchored {
		how += fmt.Sprintf("\nat record %d the node began without a checkpoint: an end that was cut off before does not show", seq)
	}
	if c.Hash == "" {
		return how + "\nno checkpoint: an end that was cut off does not show"
	}
	return how + fmt.Sprintf("\nnone missing up to record %d, by the checkpoint of %s; %d after it are held by the chain alone, where an end that was cut off does not show",
		c.Seq, c.Time.Local().Format(time.DateTime), r.Last-c.Seq)
}

// cmdAuditShow returns the command audit show. It verifies while it reads, so a changed record is
// an error there, too. The filters of the flags must all match. Entries that were printed before a
// broken one are unchanged.
func cmdAuditShow(env *command.Env) *cobra.Command {
	var since time.Duration
	var agent, verdict string
	cmd := &cobra.Command{
		Use:  "show [FOLDER]",
		Args: command.RangeArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, _, dir, err := findRecord(env, args)
			if err != nil {
				return err
			}
			// The zero time is before every entry: without --since all are shown.
			begin := time.Time{}
			if since > 0 {
				begin = time.Now().Add(-since)
			}
			// Verify calls the function for each entry in order, as it is read.
			_, err = audit.Verify(cmd.Context(), dir, func(e audit.Entry) error {
				if e.Time.Before(begin) || agent != "" && !visible.IsNamed(agent, e.Name, e.Agent) || verdict != "" && e.Verdict != verdict {
					return nil
				}
				if env.JSON {
					return env.PrintLine(e)
				}
				return printEntry(env, e)
			})
			return noRecord(dir, err)
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "only decisions of the last `DURATION`, such as 24h (default all)")
	cmd.Flags().StringVar(&agent, "agent", "", "only decisions about this `AGENT` or node, by id or name")
	cmd.Flags().StringVar(&verdict, "verdict", "", "only decisions with this `VERDICT`: allow, ask or deny")
	return cmd
}

// printEntry prints one decision as columns separated by tabs. The columns are time, name, tool,
// arguments, verdict, what was done, and the rule with its reason. The strings are made safe by
// Printf.
func printEntry(env *command.Env, e audit.Entry) error {
	name := command.Chain(e.Name, e.For)
	if e.Kind == audit.KindInbound { // a call of another node has the node as its agent
		name = "node " + command.Chain(cmp.Or(e.Name, e.Agent), e.For)
	}
	box := ""
	if e.Box != "" {
		box = " [box " + e.Box + "]"
	}
	return env.Printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.Local().Format(time.DateTime), name, e.Tool,
		command.PlainJSON(e.Args), e.Verdict, e.Outcome(), strings.TrimSpace(e.Rule+" "+e.Why+box))
}
