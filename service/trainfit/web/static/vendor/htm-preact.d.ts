export { h, render, Component, type ComponentChildren, type VNode } from "preact";
export * from "preact/hooks";
export function html(strings: TemplateStringsArray, ...values: unknown[]): import("preact").VNode;
