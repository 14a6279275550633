package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	symbiov1 "symbio/proto/symbio/v1"
)

// approvalsPage returns the page of the calls that wait for a person.
func approvalsPage() page {
	return page{Path: "/approvals", Name: "approvals", Title: "Approvals", Nav: true, Live: true, Data: approvalsData, Actions: map[string]action{
		"allow": {done: "The call was allowed.", do: answer(true)},
		"deny":  {done: "The call was denied.", do: answer(false)},
	}}
}

// answer returns the action that answers an approval. The digest belongs to the call that the page
// showed: a call that has become another one is not answered.
func answer(allow bool) func(context.Context, *view, url.Values) error {
	return func(ctx context.Context, v *view, form url.Values) error {
		holds, lasting := strings.CutPrefix(form.Get("for"), "good")
		r := &symbiov1.AnswerRequest{
			Id: form.Get("id"), Digest: form.Get("digest"), Allow: allow, Always: holds == "agent", Lasting: allow && lasting,
			Reason: strings.TrimSpace(form.Get("reason")), By: "dashboard",
		}
		if i, err := strconv.ParseUint(holds, 10, 31); allow && err == nil {
			r.Offer = uint32(i) + 1 // the page counts from 0
		}
		_, err := v.cfg.Client.Answer(ctx, r)
		return err
	}
}

// approvalsView is the data of the page.
type approvalsView struct {
	Waiting  []approvalView
	Problems []*symbiov1.ApprovalsProblem
}

// approvalView is a call that waits.
type approvalView struct {
	*symbiov1.Approval
	Call string // the arguments, indented
	Diff []diffLine
}

// diffLine is a line of a unified diff with its class in the style sheet.
type diffLine struct{ Class, Text string }

// approvalsData returns what waits on this node and on those that show it.
func approvalsData(ctx context.Context, v *view) (any, error) {
	reply, err := v.cfg.Client.Approvals(ctx, &symbiov1.ApprovalsRequest{})
	if err != nil {
		return nil, err
	}
	view := approvalsView{Problems: reply.GetProblems()}
	for _, a := range reply.GetApprovals() {
		var call bytes.Buffer
		if json.Indent(&call, a.GetArgs(), "", "  ") != nil {
			call.Reset() // too long to be shown here
		}
		view.Waiting = append(view.Waiting, approvalView{a, cmp.Or(call.String(), "The call is too long to be shown here."), diffLines(a.GetDiff())})
	}
	return view, nil
}

// diffLines returns the lines of a unified diff.
func diffLines(diff string) (all []diffLine) {
	class := map[byte]string{'+': "added", '-': "removed", '@': "hunk"}
	for line := range strings.Lines(diff) {
		all = append(all, diffLine{class[line[0]], line})
		// Only the first lines name files: a removed line can look the same.
		if len(all) <= 2 && (strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ")) {
			all[len(all)-1].Class = "hunk"
		}
	}
	return all
}
