package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"symbio/security/audit"
)

// action is what a form does. The form posts to /actions/NAME. Its field back
// is the page that the browser goes to afterwards.
type action struct {
	// confirm is what the person is asked before it is done, in a sentence that ends in a question
	// mark; "" = it is done at once. %s stands for the field name of the form.
	confirm string
	// do acts. It returns what was done, for the person.
	do func(ctx context.Context, v *view, form url.Values) (string, error)
}

// act answers a form: it asks the person if the action wants that, records who
// acts, and then acts. It does nothing if the record fails.
func (s *site) act(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("action")
	a, ok := s.actions[name]
	if err := r.ParseForm(); err != nil || !ok {
		s.refuse(w, http.StatusBadRequest, "This form cannot be read", "Nothing was changed. It is too long, or of another version of symbio.")
		return
	}
	form := r.PostForm
	if a.confirm != "" && form.Get("confirmed") == "" {
		question := strings.ReplaceAll(a.confirm, "%s", form.Get("name"))
		s.write(w, http.StatusOK, layout{Page: page{name: "message"}, Title: "Please confirm", Data: message{Text: question, Action: name, Fields: form, Back: back(form)}})
		return
	}
	by := r.Context().Value(sessionKey{}).(*browser)
	if err := s.record(by, name, form); err != nil {
		s.refuse(w, http.StatusInternalServerError, "Nothing was changed", fmt.Sprintf("The record of decisions cannot be written: %v. `symbio doctor` says more.", err))
		return
	}
	did, err := a.do(r.Context(), &view{Dashboard: s.Dashboard, Request: r, fleet: s.fetchFleet}, form)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.access.setNotice(by, did)
	http.Redirect(w, r, back(form), http.StatusSeeOther)
}

// record appends to the record of decisions what a session is about to do.
func (s *site) record(by *browser, name string, form url.Values) error {
	fields := maps.Clone(form)
	delete(fields, "back")
	delete(fields, "confirmed")
	args, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return s.cfg.Append(audit.Entry{
		Time: time.Now(), Node: string(s.cfg.Identity.ID()), Kind: audit.KindDashboard, Agent: string(s.cfg.Identity.ID()), Name: "dashboard",
		Tool: name, Args: args, Verdict: "allow", Approved: true, By: "dashboard " + by.By,
	})
}

// back returns the page that a form came from. Only a path of this site is
// taken, so that a form cannot lead elsewhere.
func back(form url.Values) string {
	to, err := url.Parse(form.Get("back"))
	if err != nil || to.Host != "" || to.Scheme != "" || !strings.HasPrefix(to.Path, "/") || strings.HasPrefix(to.Path, "//") {
		return "/"
	}
	return to.RequestURI()
}
