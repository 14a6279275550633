// Package telemetry gives what a node sends by OTLP to the receiver of OpenTelemetry's collector, in
// tests only.
package telemetry
