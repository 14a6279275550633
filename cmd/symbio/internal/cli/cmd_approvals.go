package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

func (a *App) cmdApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Decisions that wait for a person",
		Long: `Decisions that wait for a person, here and on every node that lets this one see its own. Whoever sits at the
terminal of symbio run is asked there; these commands answer from elsewhere. Each decision is answered once,
and is a no when nobody answers in time (approvals.timeout). Agents that nobody watches wait only with
approvals.unattended: true.

The nodes that one user runs on one machine show each other what waits. In a cluster a node shows it to those
that its configuration names: authorize: [{from: role/admin, invoke: ["approvals.*"]}]. No other pattern,
also not "*", gives that away.`,
		Example: `  symbio approvals list
  symbio approvals allow 3-9f2c41d0
  symbio approvals deny 4-b01a77e2 --always
  symbio approvals rules`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdApprovalsList(), a.cmdApprovalsShow(), a.cmdApprovalsAllow(), a.cmdApprovalsDeny(), a.cmdApprovalsRules(), a.cmdApprovalsForget())
	return cmd
}

// approvalJSON is a decision in the output; the names are a contract.
type approvalJSON struct {
	ID       string          `json:"id"`
	Agent    string          `json:"agent"`
	Name     string          `json:"name"`
	For      []string        `json:"for"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args"`
	Rule     string          `json:"rule"`
	Why      string          `json:"why"`
	Asked    time.Time       `json:"asked"`
	Deadline time.Time       `json:"deadline"`
	Node     string          `json:"node"`
	NodeName string          `json:"node_name"`
	Digest   string          `json:"digest"`
	Rules    []string        `json:"rules"`
}

func approvalOf(p *symbiov1.Approval) approvalJSON {
	args := json.RawMessage("null") // too long to be shown
	if len(p.GetArgs()) > 0 {
		args = p.GetArgs()
	}
	return approvalJSON{
		p.GetId(), p.GetAgent(), p.GetName(), append([]string{}, p.GetFor()...), p.GetTool(), args, p.GetRule(), p.GetWhy(),
		p.GetAsked().AsTime(), p.GetDeadline().AsTime(), p.GetNode(), p.GetNodeName(), p.GetDigest(), append([]string{}, p.GetRules()...),
	}
}

func (a *App) cmdApprovalsList() *cobra.Command {
	var here bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "What waits, here and on other nodes, the longest first",
		Example: "  symbio approvals list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Approvals(cmd.Context(), &symbiov1.ApprovalsRequest{Here: here})
			if err != nil {
				return err
			}
			all := []approvalJSON{}
			for _, p := range reply.GetApprovals() {
				all = append(all, approvalOf(p))
			}
			a.unseen(reply.GetProblems())
			if a.json {
				return a.printJSON(all)
			}
			rows := make([][]string, len(all))
			for i, p := range all {
				rows[i] = []string{p.ID, p.NodeName, chainOf(p.Name, p.For), visible(p.Tool), plainJSON(p.Args), p.left(), visible(p.Why)}
			}
			return a.table([]string{"ID", "NODE", "WHO", "TOOL", "ARGS", "LEFT", "WHY"}, rows)
		},
	}
	cmd.Flags().BoolVar(&here, "here", false, "only what waits on this node")
	return cmd
}

// unseen says which nodes did not show what waits there: a line for each reason.
func (a *App) unseen(problems []*symbiov1.ApprovalsProblem) {
	var reasons []string
	nodes := map[string][]string{}
	for _, p := range problems {
		why := printable(p.GetWhy())
		if nodes[why] == nil {
			reasons = append(reasons, why)
		}
		nodes[why] = append(nodes[why], printable(p.GetNodeName()))
	}
	for _, why := range reasons {
		fmt.Fprintf(a.Err, "not shown is what waits on %s: %s\n", strings.Join(nodes[why], ", "), why)
	}
}

func (p approvalJSON) left() string {
	if p.Deadline.Unix() <= 0 {
		return ""
	}
	return time.Until(p.Deadline).Round(time.Second).String()
}

// chainOf says who asks for whom.
func chainOf(name string, behalf []string) string {
	for _, n := range behalf {
		name += " <- " + n
	}
	return visible(name)
}

func (a *App) cmdApprovalsShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "One decision, whole",
		Example: "  symbio approvals show 3-9f2c41d0",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Approvals(cmd.Context(), &symbiov1.ApprovalsRequest{Id: args[0]})
			if err != nil {
				return err
			}
			if len(reply.GetApprovals()) == 0 {
				a.unseen(reply.GetProblems())
				return notFound(fmt.Errorf("no approval %q waits; it was answered, or nobody did in time, or its task has ended", args[0]))
			}
			p := approvalOf(reply.GetApprovals()[0])
			if a.json {
				return a.printJSON(p)
			}
			_, err = fmt.Fprintf(a.Out, "%s on node %s wants to use %s, for another %s\n%s\n  %s\n%s", chainOf(p.Name, p.For), printable(p.NodeName), visible(p.Tool), p.left(), indented(p.Args), visible(p.Why), lasting(p.Rules))
			return err
		},
	}
}

// lasting says what an answer that lasts would keep.
func lasting(rules []string) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "  --lasting would keep: %s\n", visible(r))
	}
	return b.String()
}

func (a *App) cmdApprovalsAllow() *cobra.Command {
	var r symbiov1.AnswerRequest
	cmd := &cobra.Command{
		Use:   "allow ID",
		Short: "Let a call be made",
		Long: `Let a call be made, once. With --always exactly this call is not asked about again while the agent lives. With
--lasting it is allowed from now on, also after a restart: by one exact rule for each simple command, or as
exactly this call, for this working directory, and as long as the rules of the configuration stay what they
are. symbio approvals show says what would be kept; symbio approvals rules lists it, forget takes it back.`,
		Example: `  symbio approvals allow 3-9f2c41d0
  symbio approvals allow 3-9f2c41d0 --always
  symbio approvals allow 3-9f2c41d0 --lasting`,
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.answer(cmd, &r, args[0], true) },
	}
	cmd.Flags().BoolVar(&r.Always, "always", false, "for exactly this call from now on, while the agent lives")
	cmd.Flags().BoolVar(&r.Lasting, "lasting", false, "from now on, also after a restart")
	return cmd
}

func (a *App) cmdApprovalsDeny() *cobra.Command {
	var r symbiov1.AnswerRequest
	cmd := &cobra.Command{
		Use:     "deny ID",
		Short:   "Refuse a call",
		Example: "  symbio approvals deny 3-9f2c41d0\n  symbio approvals deny 3-9f2c41d0 --always     # and the same call again, while the agent lives",
		Args:    exactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.answer(cmd, &r, args[0], false) },
	}
	cmd.Flags().BoolVar(&r.Always, "always", false, "for exactly this call from now on, while the agent lives")
	return cmd
}

// answer answers one decision, and says which: the id holds a part of the digest of what was shown, so it is
// that one or none.
func (a *App) answer(cmd *cobra.Command, r *symbiov1.AnswerRequest, id string, allow bool) error {
	client, conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if r.Always && r.Lasting {
		return usage(errors.New("--always is for the session and --lasting from now on: give one of them"))
	}
	r.Id, r.Allow, r.By = id, allow, "symbio approvals"
	reply, err := client.Answer(cmd.Context(), r)
	if err != nil {
		return err
	}
	p := approvalOf(reply.GetApproval())
	if a.json {
		return a.printJSON(p)
	}
	did := "denied"
	if allow {
		did = "allowed"
	}
	_, err = fmt.Fprintf(a.Out, "%s on node %s: %s: %s %s\n", did, printable(p.NodeName), chainOf(p.Name, p.For), visible(p.Tool), plainJSON(p.Args))
	return err
}
