package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdApprovals returns the command approvals, which groups the commands for decisions that wait for
// a person. All of them ask a running node. An approval waits on the node whose agent wants to make
// the call, until it is answered or its time is over.
func cmdApprovals(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "approvals", Args: command.NoArgs, RunE: command.RequireSubcommand}
	cmd.AddCommand(cmdApprovalsList(env), cmdApprovalsShow(env), cmdApprovalsAllow(env), cmdApprovalsDeny(env), cmdApprovalsRules(env), cmdApprovalsForget(env))
	return cmd
}

// cmdApprovalsList returns the command approvals list. It shows what waits on all nodes that let
// this one see it. Other nodes get three seconds to answer; one that does not is named on standard
// error.
func cmdApprovalsList(env *command.Env) *cobra.Command {
	var here bool
	cmd := &cobra.Command{
		Use:  "list",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			reply, err := client.Approvals(ctx, &symbiov1.ApprovalsRequest{Here: here})
			if err != nil {
				return err
			}
			printApprovalProblems(env, reply.GetProblems())
			return command.PrintList(env, reply.GetApprovals(), []string{"ID", "NODE", "WHO", "TOOL", "ARGS", "LEFT", "WHY", "SO FAR"}, approvalRow)
		}),
	}
	cmd.Flags().BoolVar(&here, "here", false, "only decisions that wait on this node")
	return cmd
}

// printApprovalProblems prints which nodes did not show what waits there, one line for each reason.
// The reasons are sorted, so that the output is the same at each call.
func printApprovalProblems(env *command.Env, problems []*symbiov1.ApprovalsProblem) {
	nodes := map[string][]string{}
	for _, p := range problems {
		nodes[p.GetWhy()] = append(nodes[p.GetWhy()], p.GetNodeName())
	}
	for _, why := range slices.Sorted(maps.Keys(nodes)) {
		env.Notef("decisions on %s are not shown: %s", strings.Join(nodes[why], ", "), why)
	}
}

// approvalRow returns the columns of one decision. Texts that another node can choose are escaped,
// so that invisible characters in them show. PrintList makes the other cells safe for a terminal.
func approvalRow(p *symbiov1.Approval) []string {
	return []string{p.GetId(), p.GetNodeName(), command.Chain(p.GetName(), p.GetFor()), visible.Escape(p.GetTool()),
		command.PlainJSON(approvalArgs(p)), timeLeft(p), visible.Escape(p.GetWhy()), visible.Escape(p.GetSoFar())}
}

// approvalArgs returns the arguments of the call; null when the node left them out because they are
// too long. null keeps the output valid JSON.
func approvalArgs(p *symbiov1.Approval) json.RawMessage {
	if len(p.GetArgs()) == 0 {
		return json.RawMessage("null")
	}
	return p.GetArgs()
}

// timeLeft returns the time until the node denies the call by itself; "" when there is no deadline.
// It is rounded to seconds. It is negative when the clock of this machine is past the deadline.
func timeLeft(p *symbiov1.Approval) string {
	if p.GetDeadline().GetSeconds() <= 0 {
		return ""
	}
	return time.Until(p.GetDeadline().AsTime()).Round(time.Second).String()
}

// cmdApprovalsShow returns the command approvals show, which prints all that a person needs for the
// decision. Its exit status is 4 when no such approval waits.
func cmdApprovalsShow(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "show ID",
		Args: command.ExactArgs(1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			reply, err := client.Approvals(ctx, &symbiov1.ApprovalsRequest{Id: args[0]})
			if err != nil {
				return err
			}
			if len(reply.GetApprovals()) == 0 {
				printApprovalProblems(env, reply.GetProblems())
				return command.NotFound(fmt.Errorf("no approval %q waits; it was answered, its time ran out, or its task has ended; `symbio approvals list` shows those that wait", args[0]))
			}
			p := reply.GetApprovals()[0]
			if len(reply.GetApprovals()) > 1 {
				return command.Usage(fmt.Errorf("several approvals fit %q; `symbio approvals list` has their ids", args[0]))
			}
			if env.JSON {
				return env.PrintJSON(p)
			}
			left := ", for another " + timeLeft(p)
			if timeLeft(p) == "" {
				left = "; its node was started again meanwhile, and the task goes on with your answer"
			}
			wants := " on node " + terminal.Printable(p.GetNodeName()) + " wants to use "
			_, err = fmt.Fprintf(env.Out, "%s%s\n%s\n  %s\n%s%s%s", command.DecisionText(p.GetName(), p.GetFor(), wants, p.GetTool()), left,
				command.CallText(p.GetTool(), approvalArgs(p)), visible.Escape(p.GetWhy()), diffText(p.GetSoFar()), offersText(p), diffText(p.GetDiff()))
			return err
		}),
	}
}

// diffText returns the change that an edit would make, indented. Characters that cannot be seen are
// escaped in it; "" if there is none.
func diffText(diff string) string {
	var b strings.Builder
	for line := range strings.Lines(diff) {
		b.WriteString("  " + visible.Escape(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")) + "\n")
	}
	return b.String()
}

// offersText returns what an answer can allow with the call: what --lasting would keep, and the offers. It is
// "" when the call can be allowed only once, or while the agent lives.
func offersText(p *symbiov1.Approval) string {
	var b strings.Builder
	for _, r := range p.GetRules() {
		fmt.Fprintf(&b, "  --lasting would keep: %s\n", visible.Escape(r))
	}
	for i, o := range p.GetOffers() {
		fmt.Fprintf(&b, "  --offer %d: %s\n    %s\n", i+1, visible.Escape(o.GetText()), strings.Join(command.OfferLines(o.GetRules(), o.GetCovers()), "\n    "))
	}
	return b.String()
}

// cmdApprovalsAllow returns the command approvals allow. Its exit status is 4 when no such approval
// waits any more.
func cmdApprovalsAllow(env *command.Env) *cobra.Command {
	// The flags write into the request; answerApproval fills in the rest.
	var r symbiov1.AnswerRequest
	cmd := &cobra.Command{Use: "allow ID", Args: command.ExactArgs(1), RunE: answerApproval(env, &r, true)}
	cmd.Flags().BoolVar(&r.Always, "always", false, "also allow the same call again while the agent lives")
	cmd.Flags().StringVar(&r.Reason, "text", "", "the answer to a question of an MCP server: a value, or NAME: VALUE for each of several fields")
	cmd.Flags().BoolVar(&r.Lasting, "lasting", false, "the same call, or what --offer allows, is allowed from now on, also after a restart")
	cmd.Flags().Uint32Var(&r.Offer, "offer", 0, "also allow what this offer of `symbio approvals show` allows while the agent lives, by its number (default: none)")
	return cmd
}

// cmdApprovalsDeny returns the command approvals deny. A denial can hold while the agent lives, but
// not for good: for that there are rules of the configuration.
func cmdApprovalsDeny(env *command.Env) *cobra.Command {
	var r symbiov1.AnswerRequest
	cmd := &cobra.Command{Use: "deny ID", Args: command.ExactArgs(1), RunE: answerApproval(env, &r, false)}
	cmd.Flags().BoolVar(&r.Always, "always", false, "also deny the same call again while the agent lives")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, in a sentence that the agent's model reads")
	return cmd
}

// answerApproval returns a RunE that answers one decision. No digest is sent: the id contains a
// part of it, so the answer is about the call that was shown or about none. r must be the request
// that the flags of the command were registered with. The answer can be for a call on another node;
// the running node passes it on.
func answerApproval(env *command.Env, r *symbiov1.AnswerRequest, allow bool) func(*cobra.Command, []string) error {
	return env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
		// The two answers contradict each other about how long they hold.
		if r.Always && r.Lasting {
			return command.Usage(errors.New("--always holds while the agent lives, --lasting for good: give only one of them"))
		}
		// By is recorded in the node's record of decisions.
		r.Id, r.Allow, r.By = args[0], allow, "symbio approvals"
		reply, err := client.Answer(ctx, r)
		if err != nil {
			return err
		}
		p := reply.GetApproval()
		if env.JSON {
			return env.PrintJSON(p)
		}
		did := "denied"
		if allow {
			did = "allowed"
		}
		return env.Printf("%s on node %s: %s: %s %s\n", did, p.GetNodeName(), command.Chain(p.GetName(), p.GetFor()),
			visible.Escape(p.GetTool()), command.PlainJSON(approvalArgs(p)))
	})
}

// cmdApprovalsRules returns the command approvals rules, which lists what is allowed from now on, or for the session of an
// agent. They belong to the running node; other nodes have their own.
func cmdApprovalsRules(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "rules",
		Args: command.NoArgs,
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, _ []string) error {
			reply, err := client.Rules(ctx, &symbiov1.RulesRequest{})
			if err != nil {
				return err
			}
			return command.PrintList(env, reply.GetRules(), []string{"ID", "ALLOWS", "IN", "SINCE", "BY", "COUNTS"}, ruleRow)
		}),
	}
}

// ruleRow returns the columns of one rule, and why it is not in force if it is not. A rule is in
// force only while the node works in its directory, under the configured rules for which the
// approval was given.
func ruleRow(r *symbiov1.LastingRule) []string {
	counts := "in force"
	if r.GetSession() {
		counts = "for the session"
	}
	if !r.GetInForce() {
		counts = "not in force: " + r.GetWhyNot()
	}
	since := r.GetSince().AsTime().Local().Format(time.DateTime)
	return []string{r.GetId(), visible.Escape(r.GetRule()), visible.Escape(r.GetDir()), since, r.GetBy(), counts}
}

// cmdApprovalsForget returns the command approvals forget, which removes one of those rules. It
// prints nothing. An agent that is working asks again at its next such call. Its exit status is 4
// when there is no such rule.
func cmdApprovalsForget(env *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:  "forget ID",
		Args: command.ExactArgs(1),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			_, err := client.Forget(ctx, &symbiov1.ForgetRequest{Id: args[0]})
			return err
		}),
	}
}
