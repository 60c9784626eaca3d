import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import "./panels.css";

mount(App, { target: document.getElementById("page")! });
