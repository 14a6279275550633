package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"symbio/agent/definition"
	"symbio/internal/security/private"
)

// The kinds of targets.
const (
	Ntfy    = "ntfy"    // a topic of an ntfy server
	Webhook = "webhook" // a URL that takes JSON
	Command = "command" // a program of this machine
)

// sendTimeout limits one attempt.
const sendTimeout = 10 * time.Second

// Target is where messages go. Its file has the JSON names.
type Target struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// URL of a topic or webhook. It may contain a password.
	URL string `json:"url,omitempty"`
	// Command is a program and its arguments. The title and the text of a message are added.
	Command []string `json:"command,omitempty"`
}

// Check returns what is wrong with a target.
func (t Target) Check() error {
	if !definition.IsName(t.Name) {
		return fmt.Errorf("%q cannot be the name of a target", t.Name)
	}
	switch t.Kind {
	case Ntfy, Webhook:
		u, err := url.Parse(t.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return errors.New("the URL is not https://HOST/PATH")
		}
		if t.Kind == Ntfy && strings.Trim(u.Path, "/") == "" {
			return errors.New("the URL of ntfy ends with the topic, such as https://ntfy.sh/TOPIC")
		}
		return nil
	case Command:
		if len(t.Command) == 0 || t.Command[0] == "" {
			return errors.New("the command is missing")
		}
		return nil
	}
	return fmt.Errorf("%q is no kind of target: want ntfy, webhook or command", t.Kind)
}

// Place returns where the messages go, without passwords.
func (t Target) Place() string {
	if t.Kind == Command {
		return strings.Join(t.Command, " ")
	}
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host // the path is the secret of a webhook, and of a topic
}

// Book keeps targets.
type Book = private.Book[Target]

// Failure is why the last message to a target was not sent.
type Failure struct {
	Name string    `json:"name"`
	Why  string    `json:"why"`
	Time time.Time `json:"time"`
}

// Books returns the targets that are kept in the state directory of the user's nodes, and the failures of those whose last
// message was not sent. All nodes of the user share them.
func Books[Dir ~string](state Dir) (Book, private.Book[Failure]) {
	dir := filepath.Join(string(state), "notify")
	return Book{Dir: dir, Key: func(t Target) string { return t.Name }, Check: Target.Check},
		private.Book[Failure]{Dir: dir + "-failed", Key: func(f Failure) string { return f.Name }}
}

// Message is what is sent. All fields are text for people.
type Message struct {
	Title string `json:"title"`
	Text  string `json:"text"`
	// Link leads to the page that answers; "" if there is none.
	Link string `json:"link,omitempty"`
}

// errRefused means that the target refused the message, so that it is not repeated.
var errRefused = errors.New("refused")

// Send sends a message once. It follows no redirect. The error names no path and no password of the target; it wraps
// errRefused if a repetition is of no use.
func (t Target) Send(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTimeout, fmt.Errorf("no answer within %v", sendTimeout))
	defer cancel()
	if t.Kind == Command {
		return t.run(ctx, m)
	}
	to, body := t.request(m)
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%w: the URL cannot be used", errRefused)
	}
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err // without the URL
		}
		return fmt.Errorf("%s cannot be reached: %w", t.Place(), err)
	}
	answer.Body.Close()
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		return fmt.Errorf("%s answers %s", t.Place(), answer.Status)
	default:
		return fmt.Errorf("%w: %s answers %s", errRefused, t.Place(), answer.Status)
	}
}

// request returns the URL and the body of a request. ntfy takes JSON at its root, with the topic in it. A webhook gets the
// text of all in the field text, too, as chat servers take it.
func (t Target) request(m Message) (to string, body any) {
	if t.Kind != Ntfy {
		return t.URL, struct {
			Message
			Text string `json:"text"`
			Body string `json:"body"`
		}{m, strings.TrimSpace(m.Title + "\n" + m.Text + "\n" + m.Link), m.Text}
	}
	u, _ := url.Parse(t.URL) // Check has parsed it
	path := strings.TrimSuffix(u.Path, "/")
	at := strings.LastIndexByte(path, '/')
	u.Path = path[:at+1]
	return u.String(), struct {
		Topic   string `json:"topic"`
		Title   string `json:"title"`
		Message string `json:"message"`
		Click   string `json:"click,omitempty"`
	}{path[at+1:], m.Title, m.Text, m.Link}
}

// run starts the command with the title and the text as its last arguments. No shell reads them.
func (t Target) run(ctx context.Context, m Message) error {
	argv := slices.Concat(t.Command, []string{m.Title, strings.TrimSpace(m.Text + "\n" + m.Link)})
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		line, _, _ := strings.Cut(string(out[:min(len(out), 200)]), "\n")
		return fmt.Errorf("%w: %s: %w %s", errRefused, t.Command[0], err, line)
	}
	return nil
}
