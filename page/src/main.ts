import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import "./panels.css";

const target = document.getElementById("page")!;
target.replaceChildren(); // the skeleton
mount(App, { target });
