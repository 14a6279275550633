package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

func (a *App) cmdApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Decisions that wait for a person",
		Long: `Decisions that wait for a person. Whoever sits at the terminal of symbio run is asked there; these commands
answer from elsewhere. Each decision is answered once, and is a no when nobody answers in time
(approvals.timeout). Agents that nobody watches wait only with approvals.unattended: true.`,
		Example: `  symbio approvals list
  symbio approvals allow 3
  symbio approvals deny 4 --always`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.cmdApprovalsList(), a.cmdApprovalsAnswer("allow", "Let a call be made", true), a.cmdApprovalsAnswer("deny", "Refuse a call", false))
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
}

func (a *App) cmdApprovalsList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "What waits, the longest first",
		Example: "  symbio approvals list --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Approvals(cmd.Context(), &symbiov1.ApprovalsRequest{})
			if err != nil {
				return err
			}
			all := []approvalJSON{}
			for _, p := range reply.GetApprovals() {
				all = append(all, approvalJSON{
					p.GetId(), p.GetAgent(), p.GetName(), append([]string{}, p.GetFor()...), p.GetTool(), p.GetArgs(), p.GetRule(), p.GetWhy(),
					p.GetAsked().AsTime(), p.GetDeadline().AsTime(),
				})
			}
			if a.json {
				return a.printJSON(all)
			}
			rows := make([][]string, len(all))
			for i, p := range all {
				rows[i] = []string{p.ID, chainOf(p.Name, p.For), printable(p.Tool), plainJSON(p.Args), time.Until(p.Deadline).Round(time.Second).String(), printable(p.Why)}
			}
			return a.table([]string{"ID", "WHO", "TOOL", "ARGS", "LEFT", "WHY"}, rows)
		},
	}
}

// chainOf says who asks for whom.
func chainOf(name string, behalf []string) string {
	for _, n := range behalf {
		name += " <- " + n
	}
	return printable(name)
}

func (a *App) cmdApprovalsAnswer(use, short string, allow bool) *cobra.Command {
	var always bool
	cmd := &cobra.Command{
		Use:     use + " ID",
		Short:   short,
		Example: fmt.Sprintf("  symbio approvals %s 3\n  symbio approvals %s 3 --always     # and the same call again, while the agent lives", use, use),
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = client.Answer(cmd.Context(), &symbiov1.AnswerRequest{Id: args[0], Allow: allow, Always: always, By: "symbio approvals"})
			return err
		},
	}
	cmd.Flags().BoolVar(&always, "always", false, "for exactly this call from now on, while the agent lives")
	return cmd
}
