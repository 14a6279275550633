package dashboard

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"time"

	"symbio/internal/security/audit"
)

// action is what a form of a page does. The form is posted to the address of
// its page, which is shown again afterwards; its field action names the action.
type action struct {
	// confirm is what the person is asked before it is done; "" = it is done at once.
	confirm string
	// done is what the person reads afterwards. next is the page that is shown then; "" = the same.
	done, next string
	// do acts.
	do func(ctx context.Context, v *view, form url.Values) error
	// show is a do that returns what the person reads afterwards, once, such as a secret.
	show func(ctx context.Context, v *view, form url.Values) (string, error)
}

// act answers a form: it asks the person if the action wants that, records who
// acts, and then acts. It does nothing if the record fails.
func (s *site) act(w http.ResponseWriter, r *http.Request, p page) {
	err := r.ParseForm()
	name := r.PostForm.Get("action")
	a, ok := p.Actions[name]
	if err != nil || !ok {
		s.say(w, http.StatusBadRequest, "This form cannot be read", message{Text: "Nothing was changed. The form is too long, or of another version of symbio.", Back: r.URL.Path})
		return
	}
	if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("form")), []byte(sessionIn(r.Context()).form)) != 1 {
		s.refuse(w)
		return
	}
	if a.confirm != "" && r.PostForm.Get("confirmed") == "" {
		s.say(w, http.StatusOK, "Please confirm", message{Text: a.confirm, Fields: r.PostForm, Back: r.URL.Path})
		return
	}
	if err := s.record(r, name); err != nil {
		s.say(w, http.StatusInternalServerError, "Nothing was changed", message{Text: fmt.Sprintf("The record of decisions cannot be written: %v. symbio doctor says more.", err), Back: r.URL.Path})
		return
	}
	text, v := "", &view{s.Dashboard, r, s.fetchFleet}
	if a.show != nil {
		text, err = a.show(r.Context(), v, r.PostForm)
	} else {
		err = a.do(r.Context(), v, r.PostForm)
	}
	switch {
	case err != nil:
		s.fail(w, err)
	case text != "":
		s.say(w, http.StatusOK, "Done", message{Text: text, Back: r.URL.Path})
	default:
		http.Redirect(w, r, cmp.Or(a.next, r.URL.Path+"?done="+name), http.StatusSeeOther)
	}
}

// record appends to the record of decisions what a session is about to do.
func (s *site) record(r *http.Request, name string) error {
	fields := maps.Clone(r.PostForm)
	for _, name := range []string{"action", "confirmed", "form"} {
		delete(fields, name)
	}
	fields["page"] = []string{r.URL.Path}
	args, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	id := string(s.cfg.Identity.ID())
	return s.cfg.Append(audit.Entry{
		Time: time.Now(), Node: id, Kind: audit.KindDashboard, Agent: id, Name: "dashboard", Tool: name, Args: args,
		Verdict: "allow", Approved: true, By: "dashboard " + sessionIn(r.Context()).by,
	})
}
