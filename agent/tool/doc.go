// Package tool defines the tools that a model can call, and the Set that checks and runs the calls.
//
// An agent holds a Set, never a Tool, so no call can get around the guard. A Set decodes the
// arguments once and strictly, asks its guard about the same value that the tool will get, asks a
// person where the guard says so, reports the decision, and only then runs the tool.
//
// The calls of one turn run in parallel where the tools allow it. The results come in the order of
// the calls. Every failure becomes a result that the model can read: Run returns no error and does
// not panic. Run returns when everything that it started has ended, so a tool that ignores its
// context delays it.
//
// The package neither sandboxes tools nor decides about calls: the rules are in
// security/permission.
package tool
