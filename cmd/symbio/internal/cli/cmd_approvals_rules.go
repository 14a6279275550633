package cli

import (
	"time"

	"github.com/spf13/cobra"

	symbiov1 "symbio/proto/symbio/v1"
)

// lastingJSON is what was allowed for good in the output; the names are a contract.
type lastingJSON struct {
	ID      string    `json:"id"`
	Rule    string    `json:"rule"`
	Dir     string    `json:"dir"`
	Since   time.Time `json:"since"`
	By      string    `json:"by"`
	InForce bool      `json:"in_force"`
	WhyNot  string    `json:"why_not"`
}

func (a *App) cmdApprovalsRules() *cobra.Command {
	return &cobra.Command{
		Use:   "rules",
		Short: "What was allowed from now on, the oldest first",
		Long: `What was allowed from now on (symbio approvals allow --lasting), the oldest first: exact rules and whole calls,
with the working directory that they are for. They are kept in the node's state, outside of any repository.
None lifts a denial, and one counts only while the rules of the configuration are those under which it was
allowed.`,
		Example: "  symbio approvals rules --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			reply, err := client.Rules(cmd.Context(), &symbiov1.RulesRequest{})
			if err != nil {
				return err
			}
			all := []lastingJSON{}
			for _, r := range reply.GetRules() {
				all = append(all, lastingJSON{r.GetId(), r.GetRule(), r.GetDir(), r.GetSince().AsTime(), r.GetBy(), r.GetWhyNot() == "", r.GetWhyNot()})
			}
			if a.json {
				return a.printJSON(all)
			}
			rows := make([][]string, len(all))
			for i, r := range all {
				counts := "in force"
				if !r.InForce {
					counts = "not in force: " + r.WhyNot
				}
				rows[i] = []string{r.ID, visible(r.Rule), visible(r.Dir), r.Since.Local().Format(time.DateTime), r.By, counts}
			}
			return a.table([]string{"ID", "ALLOWS", "IN", "SINCE", "BY", "COUNTS"}, rows)
		},
	}
}

func (a *App) cmdApprovalsForget() *cobra.Command {
	return &cobra.Command{
		Use:     "forget ID",
		Short:   "Take back what was allowed from now on",
		Example: "  symbio approvals forget 3fa2c1",
		Args:    exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, conn, err := a.dial()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = client.Forget(cmd.Context(), &symbiov1.ForgetRequest{Id: args[0]})
			return err
		},
	}
}
